"""Synchronous propagation: one transaction over a site and its masters."""
