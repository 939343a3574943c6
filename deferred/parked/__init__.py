"""The error queue at masters: parked transactions, and what becomes of them."""
