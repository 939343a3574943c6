"""Carrying rows between databases: COPY, Arrow, and values as text."""
