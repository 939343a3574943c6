"""Decides for each row that differs whose both sides are to have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa
from sqlalchemy import BigInteger, cast, func, select

from deferred.errors import BadOption
from sites.table import Table
from snapshots import keys
from snapshots.check.moments import Moments
from snapshots.check.report import Kind
from snapshots.rectify.errors import NoCommitTimes
from snapshots.rectify.found import Found
from snapshots.rectify.report import Extra, Missing, Reference, Take
from snapshots.side import Side
from snapshots.window import Member

if TYPE_CHECKING:
    import pyarrow as pa


_Choice = TypeVar("_Choice", bound=Enum)


def choice(kind: type[_Choice], given: _Choice | str, name: str) -> _Choice:
    """An option that is one of a few values.

    Raises:
        BadOption: it is none of them.
    """
    try:
        return kind(given)
    except ValueError:
        known = ", ".join(one.value for one in kind)
        raise BadOption(f"{name} is one of {known}, not {given!r}.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which side is right, and what becomes of rows that only one side has."""

    reference: Reference
    extra: Extra
    missing: Missing

    def of_one_side(self, kind: Kind, *, there: bool) -> Take:
        """Whose row both sides are to have, of one that a single side has.

        Parameters:
            there: the master has it after all, outside the subset. Then the site's row
                would overwrite the master's: a merge lets it go instead, and with the
                site as the reference somebody has to decide, by a plan.
        """
        right = Take.SITE if self.reference is Reference.SITE else Take.MASTER
        other = Take.MASTER if self.reference is Reference.SITE else Take.SITE
        lacking = Kind.EXTRA if right is Take.SITE else Kind.MISSING
        if kind is lacking:
            if there:
                return Take.NOTHING
            return right if self.missing is Missing.COPY else Take.NOTHING
        if self.extra is Extra.MERGE:
            return right if there else other
        return right if self.extra is Extra.DELETE else Take.NOTHING


def takes(held: Moments, member: Member, found: Found, policy: Policy) -> list[Take]:
    """Whose row both sides are to have, for each row that was found.

    Raises:
        NoCommitTimes: a database does not keep the times that are asked for.
    """
    there = found.rows.column("there").to_pylist()
    of_both = {Reference.MASTER: Take.MASTER, Reference.SITE: Take.SITE}
    newest = (
        _newest(held, member, found.rows)
        if policy.reference is Reference.NEWEST
        else [of_both[policy.reference]] * found.rows.num_rows
    )
    return [
        later if kind is Kind.DIFFERS else policy.of_one_side(kind, there=outside)
        for kind, later, outside in zip(found.kinds, newest, there, strict=True)
    ]


def _newest(held: Moments, member: Member, rows: pa.Table) -> list[Take]:
    """The side that wrote each row last; none if that is not known of both."""
    theirs = _times(held.sides.master, member, member.master, rows)
    ours = _times(held.sides.site, member, member.base, rows)
    return [
        Take.NOTHING
        if number not in theirs or number not in ours
        else Take.MASTER
        if theirs[number] >= ours[number]
        else Take.SITE
        for number in range(rows.num_rows)
    ]


def _times(side: Side, member: Member, table: Table, rows: pa.Table) -> dict[int, int]:
    """When rows were written at a side, in microseconds, by their numbers."""
    if side.at.scalar(select(func.current_setting("track_commit_timestamp"))) != "on":
        raise NoCommitTimes(
            f"Site {side.site.name} does not keep commit times.", site=side.site.name
        )
    if not rows.num_rows:
        return {}
    identity = member.snapshot.identity_columns
    names = member.snapshot.key_names
    wanted = keys.numbered(rows.select(list(names)), member.key_types(table))
    source = _with_xmin(table)
    columns = dict(zip(names, identity, strict=True))
    same = keys.same(names, wanted, lambda name: source.c[columns[name]])
    written = func.pg_xact_commit_timestamp(source.c.xmin)
    seconds = sa.extract("epoch", written)
    query = select(wanted.c.no, cast(seconds * 1_000_000, BigInteger)).join_from(
        wanted, source, same
    )
    found = side.at.execute(query.where(written.is_not(None))).all()
    return {int(number): int(at) for number, at in found}


def _with_xmin(table: Table) -> sa.TableClause:
    columns = (sa.column(c.name, c.sql_type) for c in table.columns)
    return sa.table(table.name, sa.column("xmin"), *columns, schema=table.schema)
