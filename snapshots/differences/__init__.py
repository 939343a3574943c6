"""How a site differs from its master at one moment: what is read and compared."""
