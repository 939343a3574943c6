"""What a snapshot is: its rows, its parents and its group, as the catalog has them."""
