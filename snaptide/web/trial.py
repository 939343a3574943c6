"""Tries other rules on a master: what they change, and what conflicts would become."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import func, select

import groups
from masters.analysis import convergence, replay, stamps
from masters.analysis.convergence import Finding, Topology
from masters.analysis.replay import Replayed
from masters.catalog import registered_snapshot, resolution_record
from masters.errors import BadRulebook
from masters.rules import TableRules, list_rules, rulebook
from masters.rules.document import documents
from sites import QualifiedName, Site
from sites.sessions import identity
from snaptide.asking import asking

#: So many conflicts are tried at once, because somebody waits.
MOST = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRules:
    """The rules that a user tries, and on which conflicts."""

    #: the document as it was typed
    text: str
    #: tables that it does not name keep their rules
    keep_others: bool
    #: only conflicts with a higher number
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What other rules come to; nothing has been written."""

    #: as `snaptide rules diff` prints them
    changes: Sequence[str]
    #: where masters may stay different by them
    findings: Sequence[Finding]
    #: how many conflicts were tried, and those that would have ended differently
    count: int
    otherwise: Sequence[Replayed]
    #: the number of the last that was tried; None if there are no more
    last: int | None


def tried(site: Site, wanted: OtherRules) -> Trial:
    """Compare rules with those of a master, and settle its conflicts by them.

    Raises:
        BadRulebook, UnknownTable, RuleError: they cannot be rules of the master.
    """
    with _of_the_right_form():
        book = tomllib.loads(wanted.text)
        changes = rulebook.diff(site, book, keep_others=wanted.keep_others)
        with identity.initialised(site) as connection:
            every = rulebook.parse(connection, book)
    named = {one.table for one in every}
    if wanted.keep_others:
        every += [one for one in list_rules(site) if one.table not in named]
    book = documents(every)
    # One more than are shown, to know whether that is the end.
    some = list(replay.replay(site, book, since=wanted.since, limit=MOST + 1))
    shown = some[:MOST]
    tables = {str(one) for one in named}
    return Trial(
        changes=changes,
        findings=_findings(site, every),
        count=len(shown),
        otherwise=[
            one
            for one in shown
            if one.differs and (one.table in tables or not wanted.keep_others)
        ],
        last=shown[-1].id if len(some) > MOST else None,
    )


def before_the_latest(site: Site) -> int:
    """The number after which the latest conflicts come, as many as a trial takes."""
    number = resolution_record.c.id
    latest = select(number).order_by(number.desc()).limit(MOST).subquery()
    with asking(site) as connection:
        return (connection.scalar(select(func.min(latest.c.id))) or 1) - 1


@contextmanager
def _of_the_right_form() -> Iterator[None]:
    """Turn what a document of another form comes to into an error of ours.

    Raises:
        BadRulebook.
    """
    try:
        yield
    except tomllib.TOMLDecodeError as error:
        raise BadRulebook(f"This is not TOML: {error}.") from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BadRulebook("This is not of the form that rules have.") from None


def _findings(site: Site, every: Sequence[TableRules]) -> list[Finding]:
    """Where masters may stay different by rules that are not theirs yet."""
    masters = groups.masters_of_tables(site, settle=False)
    at = registered_snapshot.c
    counted = select(at.table_schema, at.table_name, func.count()).where(at.updatable)
    with asking(site) as connection:
        rows = connection.execute(counted.group_by(at.table_schema, at.table_name))
        updatable = {QualifiedName(schema, name): count for schema, name, count in rows}
    return stamps.check(site, every) + convergence.check(
        every,
        {
            one.table: Topology(
                masters=masters.get(one.table, 1), snapshots=updatable.get(one.table, 0)
            )
            for one in every
        },
    )
