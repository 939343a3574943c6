"""The net change of consecutive transactions (HVAR's compile rules).

Each has its own net change of a row; taken in order, each must start where the one
before it ended, or the row went through an invalid state. The result starts with the
first and ends with the last:

| first, then | result |
|---|---|
| insert, update | one insert, with the last values |
| insert, delete | nothing ('A'): but the key must be absent at the master |
| update, update | one update; 'S' if the row ends as it began: only compared |
| update, delete | a delete with the first old image |
| delete, insert | both, the delete first ('R') |
| any other pair | invalid ('X') |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Subquery, Text, func, select

from sites.transfer.types import NativeType


def folded(
    nets: sa.CTE, *, keys: Sequence[str], columns: int, partial: bool
) -> Subquery:
    """Fold the net changes of single transactions, row by row.

    Parameters:
        nets: tran, call_no, kind, the keys, o1, ... and n1, ... of each.
        keys: the names of the columns that identify a row.
        columns: how many columns are carried.
        partial: the master has columns that are not carried; a delete loses their
            values.
    """
    found = _joined(nets, keys, columns, partial=partial)
    single, kind = sa.not_(found.c.several), found.c.kind
    shown, ended = sa.or_(single, kind.not_in(["A", "I"])), sa.or_(single, kind != "D")
    numbers = range(1, columns + 1)
    return select(
        *(found.c[name] for name in ("tran", "several", "call_no", "kind")),
        *(sa.case((shown, found.c[f"o{n}"])).label(f"o{n}") for n in numbers),
        *(
            sa.case(
                (kind == "A", found.c[f"first_n{n}"]), (ended, found.c[f"n{n}"])
            ).label(f"n{n}")
            for n in numbers
        ),
    ).subquery()


def _joined(
    nets: sa.CTE, keys: Sequence[str], columns: int, *, partial: bool
) -> Subquery:
    """The kind of each row's change, with the images that its result may need."""
    telling = _telling(_chain(nets, keys, columns))
    first, last = telling.alias("first_net"), telling.alias("last_net")
    odd = _odd(telling)
    kind, wrong = _kind(first, last, odd, columns, partial=partial)
    numbers = range(1, columns + 1)
    return (
        select(
            func.coalesce(wrong, first.c.tran).label("tran"),
            sa.not_(last.c.is_first).label("several"),
            last.c.call_no,
            kind.label("kind"),
            *(first.c[f"o{n}"] for n in numbers),
            *(first.c[f"n{n}"].label(f"first_n{n}") for n in numbers),
            *(last.c[f"n{n}"] for n in numbers),
        )
        .select_from(last)
        .join(first, first.c.call_no == last.c.first_no)
        .outerjoin(odd, odd.c.first_no == last.c.first_no)
        .where(last.c.is_last)
        .offset(0)  # the kind is computed once a row, not once for each column
        .subquery()
    )


def image(
    source: sa.FromClause, names: Sequence[str], *absent: str
) -> ColumnElement[Any]:
    """An image as one text, different for different rows; NULL for the absent kinds."""
    row = sa.cast(func.row(*(source.c[name] for name in names)), Text)
    return sa.case((source.c.kind.not_in(absent), row))


def _chain(nets: sa.CTE, keys: Sequence[str], columns: int) -> Subquery:
    """Each net change, with the first of its row and the end of the one before it."""
    row = [nets.c[name] for name in keys]
    in_order: dict[str, Any] = {"partition_by": row, "order_by": nets.c.tran}
    return select(
        *nets.c,
        _values(nets, "o", columns).label("start"),
        func.lag(_values(nets, "n", columns)).over(**in_order).label("before"),
        func.lag(nets.c.kind).over(**in_order).label("kind_before"),
        func.first_value(nets.c.call_no).over(**in_order).label("first_no"),
        func.lead(nets.c.call_no).over(**in_order).is_(None).label("is_last"),
    ).subquery()


def _values(source: sa.FromClause, side: str, columns: int) -> ColumnElement[Any]:
    """One image as a record, which is cheaper to compare than text, and as exact."""
    values = (source.c[f"{side}{n}"] for n in range(1, columns + 1))
    return sa.cast(func.row(*values), NativeType("record"))


def _absent(kind: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether there was no row before a change."""
    return kind.in_(("I", "N"))


def _gone(kind: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether there is no row after a change."""
    return kind.in_(("D", "N"))


def _telling(chain: Subquery) -> sa.CTE:
    """The net changes that decide their rows': the first, the last, and odd ones.

    Most rows change the same way again and again, and only these few are kept and
    joined with their images. Odd ones are those at which the chain is broken, that
    make the row anew, or that replace it.
    """
    c = chain.c
    is_first = c.call_no == c.first_no
    absent, was_gone = _absent(c.kind), _gone(c.kind_before)
    broken = sa.or_(
        c.kind == "X",
        sa.and_(
            sa.not_(is_first),
            sa.case(
                (sa.or_(absent, was_gone), absent != was_gone),
                else_=c.start.bool_op("*<>")(c.before),
            ),
        ),
    )
    passed_on = [
        column for column in c if column.name not in ("start", "before", "kind_before")
    ]
    each = select(
        *passed_on,
        is_first.label("is_first"),
        broken.label("broken"),
        sa.and_(c.kind == "I", sa.not_(is_first)).label("anew"),
    ).subquery()
    odd = sa.or_(each.c.broken, each.c.anew, each.c.kind == "R")
    told = sa.or_(each.c.is_first, each.c.is_last, odd)
    return select(each).where(told).cte("telling")


def _odd(telling: sa.CTE) -> Subquery:
    """One line for each row with odd changes: where it breaks, and what they are."""
    broken, anew, replaced = telling.c.broken, telling.c.anew, telling.c.kind == "R"
    return (
        select(
            telling.c.first_no,
            func.min(telling.c.tran).filter(broken).label("broken"),
            func.min(telling.c.tran).filter(anew).label("anew"),
            func.bool_or(replaced).label("replaced"),
        )
        .where(sa.or_(broken, anew, replaced))
        .group_by(telling.c.first_no)
        .subquery()
    )


def _kind(
    first: Any, last: Any, odd: Subquery, columns: int, *, partial: bool
) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """The kind of a row's change, and the transaction at which it is invalid."""
    absent, gone = _absent(first.c.kind), _gone(last.c.kind)
    same = _values(first, "o", columns).bool_op("*=")(_values(last, "n", columns))
    lost = odd.c.anew if partial else sa.null()
    kind = sa.case(
        (last.c.is_first, first.c.kind),
        (odd.c.broken.is_not(None), "X"),
        (sa.and_(absent, gone), "A"),
        (absent, "I"),
        (gone, "D"),
        (lost.is_not(None), "X"),
        (sa.or_(odd.c.replaced, odd.c.anew.is_not(None)), "R"),
        (same, "S"),
        else_="U",
    )
    wrong = sa.case(
        (last.c.is_first, sa.null()),
        (odd.c.broken.is_not(None), odd.c.broken),
        (kind == "X", lost),
    )
    return kind, wrong
