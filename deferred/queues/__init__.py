"""Queues at sites: captured calls, waiting calls, and calls that a refresh covers."""
