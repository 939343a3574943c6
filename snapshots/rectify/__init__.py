"""Mending the rows that a check has proven to differ, by the ordinary ways.

A row is mended by saying whose is right, and that decides the way:

- The master's row is right: the key goes into the extra keys of the snapshot, and a
  refresh reads the row again, as it does what it held back.
- The site's row is right: a call for the master is queued, by the user `rectify`. Its
  old values are the master's row, so that a change that comes in between is a conflict.

A plan is made at two moments that a check holds. Before anything is written, its rows
are compared once more, at moments between which no refresh can come: what users have
changed since, or what is explained by now, is left alone. So it does not matter how old
the plan is.
"""
