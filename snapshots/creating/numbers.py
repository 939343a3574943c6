"""The numbers that a site has leased: what is left, more of them, and other ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from deferred.batches import reconcile
from masters.numbers import columns, contact, ledger, ranges
from masters.numbers.columns import Method, NumberedColumn
from masters.numbers.left import Numbers, shown
from sites import faults, names
from sites.sessions import identity
from sites.sessions.peers import Pair
from sites.sessions.site import Site
from sites.tables import ddl, locks
from snapshots.creating import base_table
from snapshots.definitions import refresh_group, snapshot, unaltered
from snapshots.definitions.definition import Definition, define
from snapshots.definitions.errors import NoSuchNumbers, TooManyNumbers
from snapshots.definitions.numbered import NONE
from snapshots.definitions.snapshot import Snapshot

#: The most numbers of one lease that is asked for by hand; the master draws them all.
MOST_BY_HAND = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A site and the master that leases it numbers, in the middle of a contact."""

    origin: Connection
    target: Connection
    pair: Pair


def list_numbers(site: Site, snapshot: str | None = None) -> list[Numbers]:
    """List the columns of a site that draw numbers, and how many are left.

    Parameters:
        snapshot: only those of one.

    Raises:
        SiteUnreachable, SiteNotInitialised.
    """
    key = None if snapshot is None else str(names.parse(snapshot))
    with identity.initialised(site) as connection:
        found = columns.all_of(connection, snapshot=key)
    return [shown(one) for one in found]


def lease_numbers(site: Site, column: str, *, numbers: int | None = None) -> Numbers:
    """Lease more numbers for a column, as before a bulk load.

    Parameters:
        column: `table.column` or `schema.table.column`.
        numbers: how many; by default as many as a contact brings.

    Raises:
        NoSuchNumbers: no column of that name leases numbers here.
        TooManyNumbers: that many are not leased at once, or the number is below 1.
        CannotLease, NumbersUsedUp, SequenceBehind: the master has none to give.
        SiteUnreachable, SiteChanged, SiteRestored, SiteReplaced: one of the two
            databases is away, or was restored or replaced.
    """
    if numbers is not None and not 1 <= numbers <= MOST_BY_HAND:
        raise TooManyNumbers(
            f"{numbers:,} numbers cannot be leased at once: 1 to {MOST_BY_HAND:,}."
        )
    found = _find(site, column)
    with _line(site, found.master) as line:
        ends = line.origin, line.target, line.pair
        if found.told_to != line.pair.master.incarnation:
            contact.tell(*ends, found)
        contact.lease(*ends, found, numbers or found.wanted)
    return shown(_find(site, column))


def return_numbers(site: Site, column: str) -> Numbers:
    """Give back what is left of a column's leases; the next contact leases anew.

    The master notes what came back, and gives it to nobody else: a row of the site
    may be on its way with a number that was drawn just before.

    Parameters:
        column: `table.column` or `schema.table.column`.

    Raises:
        NoSuchNumbers: no column of that name leases numbers here.
        SiteUnreachable, SiteChanged, SiteRestored, SiteReplaced: one of the two
            databases is away, or was restored or replaced.
    """
    found = _find(site, column)
    with _line(site, found.master) as line:
        with line.origin.begin():
            unused = ranges.end(line.origin, found)
        faults.point("numbers.after_end")
        with line.target.begin():
            ledger.give_back(
                line.target,
                line.pair.site.site_id,
                found.table,
                found.column_name,
                unused,
            )
    return shown(_find(site, column))


def alter_numbers(site: Site, name: str, numbers: Mapping[str, str]) -> list[Numbers]:
    """Change how columns of a snapshot get a value that an insert does not give.

    Numbers that were leased and are left are lost with a column that leases no more.

    Parameters:
        numbers: by column, `lease`, `uuidv7` or `none`.

    Raises:
        UnknownSnapshot, RefreshRunning: not now.
        PositionMoved: the group was refreshed or altered all the same.
        UnknownColumn, NumbersRefused, CannotLease: as for a new snapshot.
    """
    with site.session() as connection:
        identity.confirm(connection, site.name)
        its = snapshot.read(connection, name).refresh_group
    with refresh_group.exclusively(site, its) as alone:
        group = unaltered.read(alone, its)
        one, master = snapshot.read(alone, name), group.head.master
        definition = define(
            site.peer(master),
            one.master,
            columns=one.columns,
            condition=None,
            updatable=one.updatable,
            numbers=numbers,
            exists=True,
        )
        for attempt in locks.patiently():
            with attempt, site.transaction() as connection:
                locks.briefly(connection)
                group.lock(connection)
                _alter(connection, one, master, definition, numbers)
                faults.point("snapshot_alter.before_numbers")
    if Method.LEASE in numbers.values():
        with _line(site, master) as line:
            contact.keep_supplied(line.origin, line.target, line.pair)
    return list_numbers(site, one.key)


def _alter(
    connection: Connection,
    one: Snapshot,
    master: str,
    definition: Definition,
    asked: Mapping[str, str],
) -> None:
    there = columns.all_of(connection, snapshot=one.key)
    before = {found.column_name: found.method for found in there}
    for column, how in asked.items():
        if how == before.get(column, NONE):
            continue
        ddl.set_default(connection, one.base, column, None)
        columns.remove(connection, one.key, column)
        if how == NONE:
            plain = definition.table.column(column)
            default = base_table.default_of(plain, definition)
        else:
            default = columns.define(
                connection,
                snapshot=one.key,
                column=column,
                method=Method(how),
                master=master,
                table=one.master,
            )
        ddl.set_default(connection, one.base, column, default)


@contextmanager
def _line(site: Site, master: str) -> Iterator[Line]:
    """Connect a site with its master, both confirmed and outside a transaction."""
    with site.session() as origin, site.peer(master).session() as target:
        here = reconcile.look(origin, site.name)
        origin.rollback()
        pair, _ = reconcile.confirm_for_refresh(origin, target, here, master)
        yield Line(origin=origin, target=target, pair=pair)


def _find(site: Site, column: str) -> NumberedColumn:
    parts = names.divided(column, ".")
    table, name = ".".join(parts[:-1]), parts[-1]
    if table:
        key, plain = str(names.parse(table)), names.plain(name)
        with identity.initialised(site) as connection:
            for one in columns.all_of(connection, snapshot=key):
                if one.column_name == plain and one.method is Method.LEASE:
                    return one
    raise NoSuchNumbers(
        f"No column {column} leases numbers at {site.name}.", column=column
    )
