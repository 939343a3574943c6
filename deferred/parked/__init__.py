"""The error queue at masters: parking transactions, showing and settling them."""
