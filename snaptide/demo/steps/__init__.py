"""The steps of the demo, one a file: each does something, shows it, and checks it."""
