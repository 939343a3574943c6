"""Numbers of a site's own, leased out of the sequences of its master."""
