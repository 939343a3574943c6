"""How often each shape occurred: the table that a run ends with."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rich.table import Table


def table(met: Mapping[str, int], histories: int, shapes: Collection[str]) -> Table:
    """Rows are shapes, with the number of histories in which each occurred."""
    made = Table(title=f"{histories} histories")
    made.add_column("shape")
    made.add_column("histories", justify="right")
    for shape in sorted({*shapes, *met}):
        made.add_row(shape, str(met.get(shape, 0)))
    return made
