"""Conditions that choose rows, and ranges that divide them."""
