"""The life of a row over all sites."""
