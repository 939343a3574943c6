"""Queues at sites: what is captured, what waits, what a refresh has covered."""
