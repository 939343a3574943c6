"""The history of a row over all sites: its changes, conflicts, and current values.

Ingres keeps it in shadow and archive tables. Here it is read from the queue of each
site, and the error queue and the record of resolutions at masters, as far back as
these are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, Text, cast, literal, select
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.errors import BadKey, NothingKnown
from deferred.queues.queue import Queue, list_queues
from deferred.row_history import at_master, in_queue
from deferred.row_history.events import CurrentRow, Event, Key, Wanted
from masters import group_schema
from masters.log.catalog import find_log
from sites import Site, names
from sites.errors import OtherSchema, SiteNotInitialised, SiteUnreachable
from sites.sessions import identity
from sites.tables.table import Column, describe
from sites.transfer.values import from_text

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What the sites still know about a row."""

    table: str
    key_columns: tuple[str, ...]
    #: the requested key, and those that the row had before and after
    keys: tuple[Key, ...]
    #: in the order of time, by the clocks of the sites that report them
    events: tuple[Event, ...]
    #: the row at masters and in updatable snapshots
    now: tuple[CurrentRow, ...]
    #: sites that could not be reached
    away: tuple[str, ...] = ()


def history(
    sites: Iterable[Site],
    table: str,
    key: Sequence[str] | Mapping[str, str],
    *,
    master: str | None = None,
) -> History:
    """Find the history of a row over all sites: changes, conflicts, current values.

    A row whose key was changed is followed, as far as queues show it. The history goes
    back as far as sites keep delivered calls, and masters keep records.

    Parameters:
        sites: all that may know the row; those that do not answer are left out.
        table: the master's table, `name` or `schema.name`.
        key: values of its primary key as text, in its order or by column.
        master: only the table of this master, if several have one of that name.

    Raises:
        NothingKnown: no site that answers has such a master table, or a queue for it.
        BadKey: it does not fit the primary key.
    """
    search = _Search(name=table, master=master, sites=list(sites))
    places = search.places()
    if not places:
        raise NothingKnown(f"No site that answers has a table {table}.", table=table)
    # Take the key from a master with a snapshot log, or else from a site with queues:
    # only these have the right key columns.
    model = min(places, key=lambda place: (place.log is None, not place.queues))
    columns = model.columns
    first = _key(search, model.site, columns, key)
    wanted = search.followed(places, columns, first)
    events, now = search.find_events(places, wanted)
    return History(
        table=str(wanted.table),
        key_columns=tuple(column.name for column in columns),
        keys=tuple(sorted(wanted.keys)),
        events=tuple(sorted(events, key=_when)),
        now=tuple(now),
        away=tuple(search.away),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A site that knows the table: as its master, or by queues for it."""

    site: Site
    #: the columns of the primary key; empty if a master has no such key
    columns: tuple[Column, ...]
    #: it is a master of the table: with a snapshot log, or in a replication group
    master: bool
    #: the master's snapshot log, if there is one
    log: Row[Any] | None
    queues: Sequence[Queue]


@dataclass(slots=True, kw_only=True)
class _Search:
    """Asks the sites, and leaves out those that do not answer."""

    name: str
    master: str | None
    sites: Sequence[Site]
    away: list[str] = field(default_factory=list)

    def places(self) -> list[_Place]:
        """The sites that know the table."""
        found = [
            self.ask(site, partial(_look, site, self.name, self.master))
            for site in self.sites
        ]
        return [place for place in found if place is not None]

    def followed(
        self, places: Sequence[_Place], columns: tuple[Column, ...], first: Key
    ) -> Wanted:
        """The row, with all keys that it had."""
        keys = {first}
        while True:
            wanted = Wanted(
                table=names.parse(self.name), columns=columns, keys=tuple(keys)
            )
            for place in places:
                found = self.ask(place.site, partial(_keys, place, wanted))
                keys |= found or set()
            if len(keys) == len(wanted.keys):
                return wanted

    def find_events(
        self, places: Sequence[_Place], wanted: Wanted
    ) -> tuple[list[Event], list[CurrentRow]]:
        """The events of the row, and its current values."""
        events, now = list[Event](), list[CurrentRow]()
        for place in places:
            found = self.ask(place.site, partial(_found_at, place, wanted))
            if found is not None:
                events += found[0]
                now += found[1]
        return events, now

    def ask(self, site: Site, what: Callable[[Connection], _Answer]) -> _Answer | None:
        """Ask a site; None if it is not set up, or cannot be reached."""
        if site.name in self.away:
            return None
        try:
            with identity.initialised(site) as connection:
                return what(connection)
        except SiteNotInitialised:
            return None
        except (SiteUnreachable, OtherSchema):
            self.away.append(site.name)
            return None


def _look(
    site: Site, name: str, master: str | None, connection: Connection
) -> _Place | None:
    """The part that a site has in a table; None if it has none."""
    table = names.parse(name)
    asked = master in (None, site.name)
    log = find_log(connection, table) if asked else None
    is_master = log is not None or (
        asked and table in group_schema.versions(connection)
    )
    queues = [
        queue for queue in list_queues(connection, master) if queue.target == table
    ]
    if is_master:
        own = describe(connection, table)
        key = own.key or (tuple(log.identity_columns) if log is not None else ())
    elif queues:
        own = describe(connection, queues[0].base)
        key = own.key or queues[0].identity_columns
    else:
        return None
    columns = tuple(map(own.column, key))
    return _Place(site=site, columns=columns, master=is_master, log=log, queues=queues)


def _key(
    search: _Search,
    site: Site,
    columns: Sequence[Column],
    key: Sequence[str] | Mapping[str, str],
) -> Key:
    """The requested key, as the database prints it.

    Raises:
        BadKey.
    """
    wanted = [column.name for column in columns]
    given = key if isinstance(key, Mapping) else dict(zip(wanted, key, strict=False))
    if sorted(given) != sorted(wanted) or len(key) != len(wanted):
        raise BadKey(
            f"The key of {search.name} has the columns {', '.join(wanted)}.",
            columns=wanted,
        )
    values = [
        cast(from_text(literal(given[one.name], Text), one.recorded), Text)
        for one in columns
    ]
    try:
        with site.transaction() as connection:
            return tuple(connection.execute(select(*values)).one())
    except DBAPIError as error:
        if not sqlstate.caused_by_data(error):
            raise
        raise BadKey(sqlstate.message(error), columns=wanted) from error


def _keys(place: _Place, wanted: Wanted, connection: Connection) -> set[Key]:
    return {
        key
        for queue in place.queues
        for key in in_queue.other_keys(connection, queue, wanted)
    }


def _found_at(
    place: _Place, wanted: Wanted, connection: Connection
) -> tuple[list[Event], list[CurrentRow]]:
    site, here = place.site.name, (connection, place.site.name)
    events, now = list[Event](), list[CurrentRow]()
    bases = {queue.base: queue.snapshot for queue in place.queues}
    if place.master:
        events += at_master.settled(*here, wanted)
        events += at_master.parked(*here, wanted)
        bases[wanted.table] = str(wanted.table)
    if place.log is not None:
        events += at_master.logged(*here, place.log, wanted)
    for queue in place.queues:
        events += in_queue.changes(connection, site, queue, wanted)
    for base, name in bases.items():
        table = describe(connection, base)
        now += in_queue.standing(*here, name, table, wanted)
    return events, now


_LAST = datetime.max.replace(tzinfo=UTC)


def _when(event: Event) -> tuple[datetime, str, int]:
    return event.at or _LAST, event.site, event.number or 0
