"""Writing differences to snapshots, and leaving alone what users have or want."""
