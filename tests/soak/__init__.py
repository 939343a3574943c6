"""A group of eight masters under load: writers and pushes everywhere, counted."""
