"""Words about groups of masters, for terminals and pages."""

from __future__ import annotations

from groups import Arrival


def brought(one: Arrival) -> str:
    """How many changes came from a master, and which one brought them."""
    by = "" if one.sender == one.source else f" by {one.sender}"
    return f"{one.transactions} of {one.source}{by}"
