"""Batches: cut from queues, compiled, shipped, and counted by the marker."""
