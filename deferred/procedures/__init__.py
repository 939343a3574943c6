"""Procedural calls: queued with row changes, performed in their order."""
