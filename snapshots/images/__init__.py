"""Images: rows of a master in files, which fill snapshots without the master."""
