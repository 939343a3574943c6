"""Applying changes at the master: they are compared, settled where rules do, written.

A unit of staged changes (`unit.py`) is written at once where nothing stands in its way
(`at_once.py`). Otherwise its rows are compared (`detect.py`, `uniqueness.py`,
`reached.py`), and conflicts are put to rules (`settlement.py`, `resolve.py`). What they
say is written into the work table (`verdict.py`, `restage.py`) and into the record
(`record.py`).
"""

from masters.apply.detect import Made
from masters.apply.unit import Outcome, Unit, apply

__all__ = ["Made", "Outcome", "Unit", "apply"]
