"""Draws as trees which parked transactions wait for which others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.tree import Tree

from deferred.parked.error_dependencies import Edge


def trees(number: int, edges: Sequence[Edge]) -> Iterator[Tree]:
    """Draw transactions to settle first at the top, with their dependants below.

    A transaction that waits for several others stands below each of them, and its own
    dependants below it only once.

    Parameters:
        number: the transaction that the user looks at; it is marked.
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
    """Add the dependants of a transaction, to any depth, without recursion."""
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
