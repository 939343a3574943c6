"""What a withdrawn transaction was made for, and whether that is still there.

Its calls are put back by names: of a snapshot, its columns and its master. All of them
may stand for something else by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from deferred.batches import same_destination
from deferred.queues.queue import Queue
from sites.tables import lossy


def noted(queue: Queue, master: UUID | None) -> dict[str, Any]:
    """The table and columns that the calls of a queue are for, and their types."""
    numbers = queue.target_numbers
    return {
        "destination": queue.destination,
        "site_id": master and str(master),
        "target": str(queue.target),
        "oid": None if numbers is None else queue.target_oid,
        "numbers": {} if numbers is None else _by_name(queue, numbers),
        "types": _by_name(queue, queue.types),
    }


def differences(
    connection: Connection, queue: Queue, made: Row[Any], known: Mapping[str, Any]
) -> Iterator[str]:
    """Why calls do not fit the queue that their snapshot has now.

    Parameters:
        made: as of `restage_parked.tables`.
        known: as `noted` had it then.
    """
    yield from _another(connection, queue, known)
    yield from _other_columns(queue, made, known)


def _another(
    connection: Connection, queue: Queue, known: Mapping[str, Any]
) -> Iterator[str]:
    """Why calls were made for another table than that of their snapshot now.

    It may have been dropped and created again under the same name, or the master's
    name been given to another database.

    Parameters:
        known: as `noted` had it then; earlier versions have not noted the table.
    """
    was = known.get("target"), known.get("destination")
    now = str(queue.target), queue.destination
    if None not in was and was != now:
        yield "is of {} at {} now, not of {} at {}".format(*now, *was)
    elif not same_destination.may_be(connection, queue.destination, known):
        yield f"is of another database now, which has the name {queue.destination}"


def _other_columns(
    queue: Queue, made: Row[Any], known: Mapping[str, Any]
) -> Iterator[str]:
    """Why calls do not fit the columns that their snapshot has now.

    It may have been dropped and created again, or the master's columns were altered.

    Parameters:
        known: as `noted` had it then; earlier versions have noted nothing.
    """
    lacks = [name for name in made.columns if name not in queue.columns]
    more = [name for name in queue.columns if name not in made.columns]
    if lacks:
        yield f"has no column {', '.join(lacks)} any more"
    if more:
        yield f"had no column {', '.join(more)} when the transaction was withdrawn"
    if {*made.identity_columns} != {*queue.identity_columns}:
        yield f"identifies its rows by {', '.join(queue.identity_columns)} now"
    if known and not (lacks or more):
        yield from _altered(queue, known)


def _altered(queue: Queue, known: Mapping[str, Any]) -> Iterator[str]:
    """What is not as it was of columns that have the same names.

    Parameters:
        known: as `noted` had it then.
    """
    numbers = queue.target_numbers
    if numbers is not None and known["oid"] == queue.target_oid:
        for name, number in _by_name(queue, numbers).items():
            if number != known["numbers"][name]:
                yield f"shows another column of the master as {name} now"
    for name, now in _by_name(queue, queue.types).items():
        was = known["types"][name]
        if was and now and not lossy.holds(now, was):
            yield f"has {name} as {now} now, not {was}: values may be rounded or cut"


def _by_name(queue: Queue, values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(queue.columns, values, strict=True))
