"""Refresh: what one is asked, what it finds to do, and what it commits."""
