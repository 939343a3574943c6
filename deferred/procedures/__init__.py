"""Procedure calls: queued with row changes, and performed in their order."""
