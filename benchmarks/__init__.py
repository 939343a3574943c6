"""How fast Snaptide is, as ratios against a limit measured in the same run.

Single times say little on a shared machine. Each benchmark runs its two sides
alternately and gives the median of the ratios, pair by pair, with their spread.
"""
