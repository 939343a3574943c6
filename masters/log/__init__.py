"""Snapshot logs: the changed keys of a table, and the snapshots that need them."""
