"""What makes the changes of a replication group travel, beyond a push."""
