"""Batches: what is cut from queues, compiled and shipped, and how far it came."""
