"""What docs/reference/statements.md says, row by row, and how each row is tried."""
