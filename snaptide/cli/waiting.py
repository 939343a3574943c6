"""Who waits for whom in the error queue, drawn as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.tree import Tree

from deferred.parked.waiting import Edge


def trees(number: int, edges: Sequence[Edge]) -> Iterator[Tree]:
    """What has to be settled first at the top, what waits for it below.

    One that waits for several stands below each of them, and what waits for it
    below the first.

    Parameters:
        number: the transaction that is looked at, marked as such.
    """
    below: dict[int, list[int]] = {}
    for edge in edges:
        below.setdefault(edge.on, []).append(edge.waiting)
    drawn: set[int] = set()
    for top in sorted(below.keys() - {edge.waiting for edge in edges}):
        yield _drawn(Tree(_name(top, number)), top, number, below, drawn)


def _drawn(
    tree: Tree, top: int, number: int, below: dict[int, list[int]], drawn: set[int]
) -> Tree:
    """Add what waits for a transaction, however deep, without recursion."""
    open_ = [(tree, top)]
    while open_:
        parent, one = open_.pop()
        if one in drawn:
            continue
        drawn.add(one)
        open_ += [(parent.add(_name(w, number)), w) for w in below.get(one, ())]
    return tree


def _name(one: int, number: int) -> str:
    return f"[bold]{one} (this one)[/bold]" if one == number else str(one)
