"""Short histories by the thousand, each on rows of its own, many in one world."""
