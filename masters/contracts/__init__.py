"""Contracts about how old what a site shows may be, and what happens if it is older."""
