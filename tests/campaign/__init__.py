"""Crashes by the thousand: every fault point, every process that can die, any time.

`python -m tests.campaign --kind async --crashes 1000 --seed 1`, or `make campaign`.
"""
