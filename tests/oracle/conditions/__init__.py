"""Histories of snapshots whose conditions ask other tables, held against the master."""
