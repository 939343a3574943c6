"""Pushing: batches carried to a destination, in one stream or several."""
