"""Publications: what sites may read of a master, and the sites to which it is granted.

A master that grants a publication binds what a site reads by policies of PostgreSQL's
row-level security, so the site's own statements need not be believed
(docs/decisions/0017-the-master-binds-what-a-site-reads.md).
"""
