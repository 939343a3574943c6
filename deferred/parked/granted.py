"""Keeping retries of a site's parked transactions to what is granted to it.

The login of a publication writes its entries of the error queue itself, and may write
there what it likes. A push of such changes would be bound by the master's policies. A
retry has the rights of an operator, so it checks the same itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, Text, literal, or_, select
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from deferred.errors import RetryFailed
from deferred.procedures.steps import Steps
from masters.publications import bounds
from masters.publications.bounds import Above, Bounds
from sites.tables.table import describe
from sites.transfer.values import from_text
from sites.writing.staged import Staged, selected

#: Kinds of changes that have no old image, and of those that have no new one.
_MAKE, _REMOVE = ("I", "N", "A"), ("D",)


@contextmanager
def within(connection: Connection, row: Row[Any], steps: Steps) -> Iterator[None]:
    """Apply a transaction that a login has parked within what is granted to its site.

    As in a push, each row has to be one that is granted, before the change and after
    it. What rules, defaults and triggers make of it is checked afterwards, and rolled
    back if it is not granted.

    Parameters:
        row: the transaction's row of error_transaction.
        steps: its calls, as they are about to be applied.

    Raises:
        RetryFailed: something of it is not granted to the site now.
    """
    if row.login is None:
        yield
        return
    with connection.begin_nested():
        tables = _tables(connection, row, steps)
        for staged, its in tables:
            _refuse_any(
                connection, row, staged, _outside(connection, staged, steps, its)
            )
        yield
        for staged, its in tables:
            _refuse_any(
                connection, row, staged, _made_outside(connection, staged, steps, its)
            )


def _tables(
    connection: Connection, row: Row[Any], steps: Steps
) -> list[tuple[Staged, Bounds]]:
    """The tables of a transaction, each with what the login may change of it."""
    found = []
    if steps.calls:
        raise _refused(row, "it calls procedures, which are granted to no site")
    for staged in steps.changed:
        name = staged.table.qualified
        its = bounds.of_site(connection, row.origin, name)
        if its is None:
            raise _refused(row, f"{row.origin} is granted no changes of {name} now")
        beyond = [c for c in staged.columns if c not in (its.columns or staged.columns)]
        if beyond:
            raise _refused(row, f"column {beyond[0]} of {name} is not granted")
        found.append((staged, its))
    return found


def _refuse_any(
    connection: Connection, row: Row[Any], staged: Staged, asked: sa.Select[tuple[int]]
) -> None:
    found = connection.scalar(asked)
    if found is not None:
        raise _refused(
            row,
            f"call {found} is about a row of {staged.table.qualified} that is not "
            f"granted to {row.origin}, or makes it one (snaptide grant with other "
            "values, or an edited value)",
        )


@contextmanager
def readable(row: Row[Any]) -> Iterator[None]:
    """Refuse a transaction that a login has parked in a form that no push gives it.

    Raises:
        RetryFailed: reading its calls failed. Other transactions keep their error.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        if row.login is None:
            raise
        why = f"no push of {row.origin} has parked it like this: delete it"
        raise _refused(row, why) from error


def _outside(
    connection: Connection, staged: Staged, steps: Steps, its: Bounds
) -> sa.Select[tuple[int]]:
    """Select the first call about a row that is not granted.

    Either as the site had it before the change, as it is at the master now, or as the
    change is to leave it.
    """
    target, key = staged.table.sql(), staged.identity[0]
    makes, removes = staged.kind(*_MAKE), staged.kind(*_REMOVE)
    outside: list[ColumnElement[bool]] = []
    for column, text in its.values.items():
        value = from_text(literal(text, Text), staged.table.column(column).recorded)
        now = target.c[column].is_distinct_from(value)
        outside.append(sa.and_(target.c[key].is_not(None), now))
        if column not in staged.columns:
            # What a new row gets there is known only afterwards: `_made_outside`.
            outside.append(sa.not_(staged.kind("U", *_REMOVE)))
            continue
        old, new = staged.old(column), staged.new(column)
        outside.append(sa.and_(sa.not_(makes), old.is_distinct_from(value)))
        outside.append(sa.and_(sa.not_(removes), new.is_distinct_from(value)))
    # Its new parent may be one that the transaction itself makes: `_made_outside`.
    outside += [
        sa.and_(target.c[key].is_not(None), ~_has_parent(connection, target.c, one))
        for one in its.above
    ]
    return (
        select(staged.source.c.call_no)
        .select_from(staged.source.outerjoin(target, staged.same_row(target)))
        .where(selected(staged.source, steps.rows), or_(sa.false(), *outside))
        .order_by(staged.source.c.call_no)
        .limit(1)
    )


def _made_outside(
    connection: Connection, staged: Staged, steps: Steps, its: Bounds
) -> sa.Select[tuple[int]]:
    """Select the first call that has left its row where it is not granted."""
    target = staged.table.sql()
    same = [target.c[name] == staged.new(name) for name in staged.identity]
    outside = [
        target.c[column].is_distinct_from(
            from_text(literal(text, Text), staged.table.column(column).recorded)
        )
        for column, text in its.values.items()
    ]
    outside += [~_has_parent(connection, target.c, one) for one in its.above]
    return (
        select(staged.source.c.call_no)
        .select_from(staged.source.join(target, sa.and_(*same)))
        .where(selected(staged.source, steps.rows), or_(sa.false(), *outside))
        .order_by(staged.source.c.call_no)
        .limit(1)
    )


def _has_parent(
    connection: Connection, row: ReadOnlyColumnCollection[str, Any], above: Above
) -> ColumnElement[bool]:
    """Whether the site is granted the parent of a row."""
    described = describe(connection, above.table)
    parent = described.sql().alias()
    same = [parent.c[theirs] == row[mine] for mine, theirs in above.pairs]
    granted = [
        parent.c[column]
        == from_text(literal(text, Text), described.column(column).recorded)
        for column, text in above.bounds.values.items()
    ]
    more = [_has_parent(connection, parent.c, one) for one in above.bounds.above]
    return sa.exists().where(*same, *granted, *more)


def _refused(row: Row[Any], why: str) -> RetryFailed:
    return RetryFailed(f"Error transaction {row.id}: {why}.", error_id=row.id)
