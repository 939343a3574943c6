"""Explains rows that differ, by what both sides know of their keys at the two moments.

Each reason is decided by a fact, in the order of `Reason`; nothing is guessed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import FromClause, Text, cast, func, select

from deferred.catalog import deferred_transaction
from deferred.error_catalog import error_transaction
from deferred.parked import parked_rows
from deferred.queues import queue, refresh_coverage
from sites.conditions import where
from sites.transfer.types import NativeType
from sites.writing.staged import selected
from snapshots import keys
from snapshots.check.moments import Moments
from snapshots.check.report import ERROR, Kind, Reason
from snapshots.definitions import frozen
from snapshots.differences import images
from snapshots.differences.window import FAST, Member
from snapshots.merging.held_keys import BETWEEN, HELD, REFUSED

if TYPE_CHECKING:
    import pyarrow as pa

#: The reason of an extra key that `snapshots.rectify` has asked a refresh to read. It
#: explains nothing: the row has come apart, and is not mended yet.
RECTIFY = "rectify"


@dataclass(frozen=True, slots=True)
class Call:
    """A change of the site that no refresh has shown the answer to."""

    transaction: str
    began: datetime | None
    #: the master has not answered it
    waits: bool


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a row differs, with what is known besides."""

    reason: Reason
    detail: str | None = None
    call: Call | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What is known of the rows of a table, by their numbers in it."""

    extra: Mapping[int, Sequence[str]]
    calls: Mapping[int, Sequence[Call]]
    #: by transaction and row, the number of the error
    parked: Mapping[tuple[str, int], int]
    #: rows that the logs of the master name, and those that it has outside the subset
    changed: frozenset[int]
    outside: frozenset[int]
    #: the logs name all that changed
    proven: bool


def explain(held: Moments, member: Member, found: pa.Table) -> list[Explained]:
    """Say of each row that differs why it does.

    Parameters:
        found: keys as `spark.diff.rows` returns them.
    """
    facts = _facts(held, member, found)
    kinds = map(Kind, found.column("kind").to_pylist())
    return [_explained(facts, number, kind) for number, kind in enumerate(kinds)]


def _explained(facts: _Facts, number: int, kind: Kind) -> Explained:
    extra, calls = facts.extra.get(number, ()), facts.calls.get(number, ())
    leaves = kind is Kind.EXTRA and number in facts.outside
    known = (
        _refused(extra) or _by_call(facts, number, calls) or _held(extra, leaves=leaves)
    )
    if known is not None:
        return known
    if extra or calls or number in facts.changed:
        reason = Reason.OUTSIDE if leaves else Reason.IN_FLIGHT
        return Explained(reason, call=calls[0] if calls else None)
    if not facts.proven:
        return Explained(Reason.UNPROVEN)
    outside = "the master has the row, outside the subset" if leaves else None
    return Explained(Reason.UNEXPLAINED, outside)


def _refused(extra: Sequence[str]) -> Explained | None:
    for by, _, why in (one.partition(BETWEEN) for one in extra):
        if by == REFUSED:
            return Explained(Reason.REFUSED, why)
    return None


def _by_call(facts: _Facts, number: int, calls: Sequence[Call]) -> Explained | None:
    for call in calls:
        if call.waits:
            return Explained(Reason.PENDING, call=call)
    for call in calls:
        error = facts.parked.get((call.transaction, number))
        if error is not None:
            return Explained(Reason.PARKED, f"{ERROR}{error}", call)
    return None


def _held(extra: Sequence[str], *, leaves: bool) -> Explained | None:
    """A row that was left alone, with what held it."""
    leaving = leaves or frozen.REASON in extra
    for by, _, why in (one.partition(BETWEEN) for one in extra):
        if by == HELD:
            # An earlier version has not noted what held it.
            reason = Reason.LEAVING if leaving else Reason.HELD_BACK
            return Explained(reason, why or None)
    return Explained(Reason.LEAVING) if frozen.REASON in extra else None


def _facts(held: Moments, member: Member, found: pa.Table) -> _Facts:
    names = list(member.snapshot.key_names)
    wanted = found.select(names)
    at_site = keys.numbered(wanted, member.key_types(member.base))
    at_master = keys.numbered(wanted, member.key_types(member.master))
    calls = _calls(held, member, at_site)
    kinds = found.column("kind").to_pylist()
    proven = member.method == FAST
    return _Facts(
        extra=_extra(held, member, at_site),
        calls=calls,
        parked=_parked(held, member, calls, found),
        changed=_changed(held, member, at_master) if proven else frozenset(),
        outside=_outside(held, member, at_master) if "extra" in kinds else frozenset(),
        proven=proven,
    )


def _identity(member: Member) -> tuple[str, ...]:
    return member.snapshot.identity_columns


def _extra(held: Moments, member: Member, wanted: FromClause) -> dict[int, list[str]]:
    """The extra keys among them, with their reasons."""
    extra = member.snapshot.extra()
    same = keys.same(member.snapshot.key_names, wanted, lambda name: extra.c[name])
    query = (
        select(wanted.c.no, extra.c.reason)
        .join_from(wanted, extra, same)
        .where(extra.c.reason != RECTIFY)
    )
    found: dict[int, list[str]] = defaultdict(list)
    for number, why in held.sides.site.at.execute(query):
        found[number].append(why)
    return found


def _calls(held: Moments, member: Member, wanted: FromClause) -> dict[int, list[Call]]:
    """The calls for them that no refresh has covered, in their order."""
    here = held.sides.site.at
    calls = queue.find_queue(here, member.snapshot.key)
    if calls is None:
        return {}
    marker = held.seen.marker
    uncovered = refresh_coverage.uncovered_calls(
        calls, marker.batch_no, marker.order_no
    ).subquery()
    same = keys.same(member.snapshot.key_names, wanted, lambda name: uncovered.c[name])
    made = deferred_transaction.c
    query = (
        select(
            wanted.c.no,
            cast(uncovered.c.xid, Text),
            func.coalesce(made.made_at, made.start_time),
            func.bool_or(uncovered.c.waits),
        )
        .select_from(
            wanted.join(uncovered, same).outerjoin(
                deferred_transaction, made.xid == uncovered.c.xid
            )
        )
        .group_by(wanted.c.no, uncovered.c.xid, made.made_at, made.start_time)
        .order_by(wanted.c.no, uncovered.c.xid)
    )
    found: dict[int, list[Call]] = defaultdict(list)
    for number, transaction, began, waits in here.execute(query):
        found[number].append(Call(transaction, began, waits))
    return found


def _changed(held: Moments, member: Member, wanted: FromClause) -> frozenset[int]:
    """Those that the master's logs name since the position that the site shows.

    A master hides rows that have left with one that it hides: the site looks for these.
    """
    assert member.since is not None
    found = images.changed_keys(member, member.since, once=False)
    here = images.leaving_keys(member) if member.master.divided else ()
    asked = [(held.sides.master, found), *((held.sides.site, one) for one in here)]
    numbers = set[int]()
    for side, query in asked:
        rows = query.subquery("changed").c
        same = keys.same(member.snapshot.key_names, wanted, rows.__getitem__)
        named = select(wanted.c.no).where(sa.exists().where(same))
        numbers.update(side.at.scalars(named))
    return frozenset(numbers)


def _outside(held: Moments, member: Member, wanted: FromClause) -> frozenset[int]:
    """Those that the master table has, but that the snapshot's condition leaves out.

    The master may also have the row with another spelling of its key, in the subset.
    """
    if member.snapshot.condition is None:
        return frozenset()
    table = member.master.sql()
    belongs = where.clause(member.snapshot.condition)
    columns = dict(zip(member.snapshot.key_names, _identity(member), strict=True))
    same = keys.same([*columns], wanted, lambda name: table.c[columns[name]])
    # Not of all columns: a publication need not have them.
    there = select(sa.literal(1)).select_from(table).where(same, belongs.is_not(True))
    query = select(wanted.c.no).where(there.exists())
    return frozenset(held.sides.master.at.scalars(query))


def _parked(
    held: Moments,
    member: Member,
    calls: Mapping[int, Sequence[Call]],
    found: pa.Table,
) -> dict[tuple[str, int], int]:
    """Which answered calls are in the master's error queue, with their error's number.

    A transaction may be parked in part: the error has to hold a call for the row.
    """
    answered = {
        (one.transaction, number)
        for number, some in calls.items()
        for one in some
        if not one.waits
    }
    if not answered:
        return {}
    transactions = tuple(sorted({transaction for transaction, _ in answered}))
    mine = (
        error_transaction.c.origin_id == held.who.site_id,
        selected(error_transaction, {"origin_transaction": transactions}),
    )
    names = member.snapshot.key_names
    numbers = sorted({number for _, number in answered})
    wanted = found.select(names).take(numbers)
    rows = {
        (one.transaction, one.key): one.error_id
        for one in parked_rows.of_table(
            held.sides.master.at,
            member.snapshot.master,
            _identity(member),
            *mine,
            among=keys.as_rows(wanted, [NativeType("text")] * len(names)),
        )
    }
    each = zip(*(column.to_pylist() for column in wanted.columns), strict=True)
    texts = dict(zip(numbers, each, strict=True))
    return {
        (transaction, number): rows[transaction, texts[number]]
        for transaction, number in answered
        if (transaction, texts[number]) in rows
    }
