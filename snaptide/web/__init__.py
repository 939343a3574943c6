"""The console: what operators see of all sites in a browser, and decide there.

Everything else runs without it. `snaptide.web` imports from all other packages, and
only the command `snaptide web` imports it.
"""
