"""Reaching a database: its sessions, its identity, and what it remembers of others."""
