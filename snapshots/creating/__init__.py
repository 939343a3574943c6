"""The verbs on snapshots themselves: create, alter, drop, list, propagate, number."""
