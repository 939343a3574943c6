"""Batches: cutting queues, compiling and shipping, and how far a destination came."""
