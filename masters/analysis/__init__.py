"""Examining the rules of a master: records, replay by other rules, convergence."""
