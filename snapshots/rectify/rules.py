"""Decides about rows that differ by a list of rules: the first that fits a row counts.

Rules are for tables in which no side is right everywhere. They see how a row differs,
and its values at the moments that are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select

from deferred.errors import BadOption
from deferred.options import Options
from sites.conditions import where
from sites.sessions.site import Site
from sites.tables.table import Table, describe
from snapshots import keys
from snapshots.check import run as check_run
from snapshots.check.errors import CheckRefused
from snapshots.check.moments import Moments
from snapshots.check.report import Kind
from snapshots.definitions.errors import (
    UnknownColumn,
    UnknownSnapshot,
)
from snapshots.definitions.snapshot import Snapshot
from snapshots.differences import images
from snapshots.differences.window import Member
from snapshots.keys import Side
from snapshots.rectify import choose
from snapshots.rectify.errors import BadRule
from snapshots.rectify.found import Found
from snapshots.rectify.report import Take

#: How types begin whose values can tell which row is newer.
_GROWING = ("timestamp", "date", "smallint", "integer", "bigint")

#: What is said of a rule that does not fit.
_WRONG = (BadOption, CheckRefused, UnknownColumn, UnknownSnapshot, where.BadCondition)


class RectifyRule(Options):
    """Whose row both sides are to have, for the rows that fit all of the other fields.

    A field that is left out fits every row.
    """

    #: The side that is right; `newest` is the one whose row was written last, of a row
    #: that both have; `nothing` leaves the row as it is.
    take: Literal["master", "site", "newest", "nothing"]
    #: Rows of these snapshots, or of the snapshots of these refresh groups.
    snapshots: tuple[str, ...] = ()
    #: Rows that differ in one of these ways.
    kinds: tuple[Kind, ...] = ()
    #: Rows of both sides that differ in no other columns than these.
    columns: tuple[str, ...] = ()
    #: Rows for which this SQL expression over columns holds at either side.
    where: str | None = None
    #: For `newest`: the column that tells which row is newer, a time or a whole number.
    #: Without it, the times of commits tell.
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rules:
    """Rules for snapshots of one refresh group, in their order."""

    every: Sequence[RectifyRule]
    #: by the number of the rule, the snapshots that it is about, each with the
    #: condition as the master prints it
    about: Sequence[Mapping[str, str | None]]

    def takes(self, held: Moments, member: Member, found: Found) -> list[Take]:
        """Whose row both sides are to have; nothing where no rule fits.

        Nothing either where the site's row would overwrite one that the master has
        outside the subset.

        Raises:
            NoCommitTimes: a database does not keep the times that are asked for.
        """
        each = [*_rows(member, found)]
        decided = [Take.NOTHING] * len(each)
        left = [*range(len(each))]
        for rule, about in zip(self.every, self.about, strict=True):
            if not left:
                break
            if member.snapshot.key not in about:
                continue
            fits = [number for number in left if each[number].fits(rule)]
            condition = about[member.snapshot.key]
            if condition is not None:
                holds = _holding(held, member, found, fits, condition)
                fits = [number for number in fits if number in holds]
            taken = _taken(held, member, found, fits, rule)
            for number, take in zip(fits, taken, strict=True):
                if take is not Take.SITE or not each[number].outside:
                    decided[number] = take
            left = sorted({*left} - {*fits})
        return decided


@dataclass(frozen=True, slots=True)
class _Row:
    """How a row differs."""

    kind: Kind
    columns: Collection[str]
    #: the master has it, outside the subset
    outside: bool

    def fits(self, rule: RectifyRule) -> bool:
        """Whether a rule is about such rows, whatever their values are."""
        if rule.kinds and self.kind not in rule.kinds:
            return False
        if not rule.columns:
            return True
        return self.kind is Kind.DIFFERS and {*self.columns} <= {*rule.columns}


def ready(
    site: Site, group: str, members: Sequence[Snapshot], given: Sequence[RectifyRule]
) -> Rules:
    """Make rules fit for the snapshots of a group.

    Raises:
        BadRule: there is no such snapshot, column or condition.
    """
    about: list[Mapping[str, str | None]] = []
    for number, rule in enumerate(given, 1):
        try:
            about.append(_about(site, group, members, rule))
        except _WRONG as error:
            raise BadRule(f"Rule {number}: {error}", rule=number) from error
    return Rules(every=given, about=about)


def _about(
    site: Site, group: str, members: Sequence[Snapshot], rule: RectifyRule
) -> dict[str, str | None]:
    if rule.by is not None and rule.take != "newest":
        raise BadOption(f"by tells which row is newer, but take is {rule.take}.")
    if rule.snapshots:
        named = check_run.chosen(site, rule.snapshots).values()
        wanted = {one.key for some in named for one in some}
        members = [one for one in members if one.key in wanted]
    check_run.known(members, rule.columns)
    if rule.by is not None:
        _refuse_unordered(site, members, rule.by)
    conditions = check_run.conditions(site, group, members, rule.where)
    return {one.key: conditions.get(one.key) for one in members}


def _refuse_unordered(site: Site, members: Sequence[Snapshot], column: str) -> None:
    """Refuse a column that cannot tell which row is newer.

    Raises:
        UnknownColumn: a snapshot does not have it.
        BadOption: it is no time and no whole number.
    """
    check_run.known(members, (column,))
    with site.transaction() as connection:
        for one in members:
            kind = describe(connection, one.base).column(column).recorded
            if not kind.startswith(_GROWING):
                raise BadOption(
                    f"Column {column} of snapshot {one.key} is of type {kind}: by "
                    "takes a time or a whole number."
                )


def _rows(member: Member, found: Found) -> Iterator[_Row]:
    names = dict(zip(images.layout(member).columns, member.carried, strict=True))
    columns = (found.rows.column(name).to_pylist() for name in ("differs", "there"))
    for kind, differs, there in zip(found.kinds, *columns, strict=True):
        places = differs.split(",") if differs else ()
        yield _Row(kind, [names[place] for place in places], there)


def _taken(
    held: Moments,
    member: Member,
    found: Found,
    numbers: Sequence[int],
    rule: RectifyRule,
) -> list[Take]:
    if rule.take != "newest":
        return [Take(rule.take)] * len(numbers)
    return choose.newest(held, member, found.rows.take(numbers), rule.by)


def _holding(
    held: Moments,
    member: Member,
    found: Found,
    numbers: Sequence[int],
    condition: str,
) -> set[int]:
    """The rows of these numbers for which a condition holds at either side."""
    wanted = found.keys(member).take(numbers)
    holds = {
        place
        for side, table in (
            (held.sides.master, member.master),
            (held.sides.site, member.base),
        )
        for place in _holding_at(side, member, table, wanted, condition)
    }
    return {numbers[place] for place in holds}


def _holding_at(
    side: Side, member: Member, table: Table, given: keys.Keys, condition: str
) -> Iterator[int]:
    if not given.num_rows:
        return
    snapshot = member.snapshot
    # The condition has the master table's name for its rows, and is about them alone.
    source = table.sql().alias(snapshot.master_table)
    columns = [source.c[name] for name in snapshot.identity_columns]
    kept = select(*columns).where(where.clause(condition)).subquery("kept")
    wanted = keys.numbered(given, member.key_types(table))
    names = dict(zip(snapshot.key_names, snapshot.identity_columns, strict=True))
    same = keys.same([*names], wanted, lambda name: kept.c[names[name]])
    yield from side.at.scalars(select(wanted.c.no).join_from(wanted, kept, same))
