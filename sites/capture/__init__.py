"""The triggers that record changes, and positions in what they record."""
