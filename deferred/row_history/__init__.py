"""The history of a row over all sites."""
