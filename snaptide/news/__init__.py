"""Tells people what has gone wrong at sites, each thing once."""
