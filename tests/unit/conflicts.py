"""Conflicts for the tests of resolution, what does not matter filled in."""

from __future__ import annotations

from collections.abc import Sequence

from masters.apply.resolve import Resolver, RowResolution
from masters.resolution.conflict import Conflict, Kind, Row
from masters.rules import Rule


def resolve(conflicts: Sequence[Conflict], rules: Sequence[Rule]) -> RowResolution:
    """Settle the conflicts of one row by rules that were just made."""
    row = [name for one in conflicts for name in one.new or ()]
    return Resolver(rules, row).resolve(conflicts)


def update_conflict(
    columns: tuple[str, ...] = ("price",),
    *,
    group: str | None = "sale",
    old: Row | None = None,
    new: Row | None = None,
    current: Row | None = None,
    origin: str = "jfk",
    master: str = "hq",
) -> Conflict:
    return Conflict(
        kind=Kind.UPDATE,
        table=("public", "products"),
        column_group=group,
        columns=columns,
        old=old,
        new=new,
        current=current,
        origin=origin,
        master=master,
    )


def uniqueness_conflict(
    columns: tuple[str, ...] = ("code",),
    *,
    constraint: str = "products_code_key",
    new: Row | None = None,
    current: Row | None = None,
    origin: str = "jfk",
    number: int | None = None,
) -> Conflict:
    return Conflict(
        kind=Kind.UNIQUENESS,
        table=("public", "products"),
        constraint=constraint,
        columns=columns,
        old=None,
        new=new if new is not None else {"id": 2, "code": "X"},
        current=current if current is not None else {"id": 1, "code": "X"},
        origin=origin,
        master="hq",
        number=number,
    )


def delete_conflict(
    *, old: Row | None = None, new: Row | None = None, current: Row | None = None
) -> Conflict:
    return Conflict(
        kind=Kind.DELETE,
        table=("public", "products"),
        columns=("id", "price"),
        old=old if old is not None else {"id": 1, "price": 10},
        new=new,
        current=current,
        origin="jfk",
        master="hq",
    )
