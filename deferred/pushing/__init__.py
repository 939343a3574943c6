"""Pushing: carry batches to a destination, in one stream or several."""
