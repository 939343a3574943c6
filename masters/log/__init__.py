"""Snapshot logs: what changed in a table, and which snapshots have yet to see it."""
