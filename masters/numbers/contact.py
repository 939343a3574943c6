"""Leasing numbers while a site talks to their master anyway."""

from __future__ import annotations

from sqlalchemy import Connection

from masters.errors import CannotLease, NumbersUsedUp, SequenceBehind
from masters.numbers import columns, ledger, ranges
from masters.numbers.columns import NumberedColumn
from sites import faults
from sites.sessions import contacts
from sites.sessions.peers import Pair
from sites.sessions.site import autocommit


def keep_supplied(origin: Connection, target: Connection, pair: Pair) -> None:
    """Lease numbers for the columns of a site that are due; commits.

    What keeps a column from its lease is noted with it: the contact goes on. A site
    that needs none costs one statement, and one where no column draws numbers does not
    come here.

    Parameters:
        origin: to the site; both connections are outside a transaction.
        target: to the master.
        pair: the two, as they were just compared.
    """
    them = pair.master
    with autocommit(origin):
        found = columns.all_of(origin, master=them.name)
    for one in found:
        if one.method is not columns.Method.LEASE:
            continue
        try:
            if one.told_to != them.incarnation:
                tell(origin, target, pair, one)
            if one.due and (missing := 2 * one.wanted - one.left) > 0:
                lease(origin, target, pair, one, missing)
        except (CannotLease, NumbersUsedUp, SequenceBehind) as error:
            with origin.begin():
                columns.note(origin, one, last_error=f"{error.code} {error.message}")


def tell(
    origin: Connection,
    target: Connection,
    pair: Pair,
    column: NumberedColumn,
) -> None:
    """Tell a master which of its numbers a site has, once in each incarnation; commits.

    Raises:
        CannotLease, SequenceBehind: the master cannot go past them.
    """
    me, them = pair.site, pair.master
    with autocommit(origin):
        every = ranges.held(origin, them.site_id)
    held = every.get((column.table, column.column_name), ())
    if held:
        with target.begin():
            ledger.record(target, me, column.table, column.column_name, held)
    faults.point("numbers.after_tell")
    with origin.begin():
        columns.note(origin, column, told_to=them.incarnation)


def lease(
    origin: Connection,
    target: Connection,
    pair: Pair,
    column: NumberedColumn,
    count: int,
) -> int:
    """Lease numbers for a column; commits at the master, then at the site.

    Between the two commits both sides remember this contact. So a master that loses the
    lease in a restore is recognized. A site that does not get the answer loses the
    numbers.

    Returns:
        How many numbers came.

    Raises:
        CannotLease, NumbersUsedUp, SequenceBehind: the master has none to give.
    """
    me, them = pair.site, pair.master
    got: list[ranges.Stretch] = []
    while (missing := count - sum(one.count for one in got)) > 0:
        with target.begin():
            part = ledger.grant(target, me, column.table, column.column_name, missing)
            faults.point("numbers.before_lease")
        got += part
        faults.point("numbers.after_lease")
        if sum(one.count for one in part) < min(missing, ledger.AT_ONCE) // 2:
            # Not much is left there: the rest is for others.
            break
    contacts.meet(origin, target, pair)()
    faults.point("numbers.after_meet")
    with origin.begin():
        ranges.store(origin, column, them.site_id, got)
        faults.point("numbers.before_store")
    faults.point("numbers.after_store")
    return sum(one.count for one in got)
