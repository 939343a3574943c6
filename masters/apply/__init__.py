"""Applying changes at the master: compare them, settle conflicts by rules, write them.

A unit of staged changes (`unit.py`) is written at once if nothing stands in its way
(`at_once.py`). Otherwise its rows are compared (`detect.py`, `uniqueness.py`,
`reached.py`), and rules settle the conflicts (`settlement.py`, `resolve.py`). Their
answers go into the work table (`verdict.py`, `restage.py`) and into the record
(`record.py`).
"""

from masters.apply.detect import SourceTransaction as SourceTransaction
from masters.apply.unit import (
    ApplyUnit as ApplyUnit,
    Outcome as Outcome,
    apply as apply,
)
