"""Checks while all are at work, and rows that nobody's work explains."""
