"""The steps of the demo, one per file: each acts, shows the result, and checks it."""
