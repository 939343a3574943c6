"""What the rules of a master come to: kept records, other rules tried, convergence."""
