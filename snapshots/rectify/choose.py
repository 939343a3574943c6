"""Decides for each row that differs whose both sides are to have."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Numeric, cast, select

from deferred.errors import BadOption
from sites.tables.table import Table
from snapshots import keys
from snapshots.check import commit_times
from snapshots.check.moments import Moments
from snapshots.check.report import Kind
from snapshots.differences.window import Member
from snapshots.keys import Side
from snapshots.rectify.found import Found
from snapshots.rectify.report import Extra, Missing, Reference, Take

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

    reference: Reference = Reference.MASTER
    extra: Extra = Extra.DELETE
    missing: Missing = Missing.COPY

    @classmethod
    def of(
        cls, *, reference: Reference | str, extra: Extra | str, missing: Missing | str
    ) -> Policy:
        """A policy, also in the words of `snaptide rectify`.

        Raises:
            BadOption: there is no such word.
        """
        return cls(
            reference=choice(Reference, reference, "reference"),
            extra=choice(Extra, extra, "extra"),
            missing=choice(Missing, missing, "missing"),
        )

    def takes(self, held: Moments, member: Member, found: Found) -> list[Take]:
        """Whose row both sides are to have, for each row that was found.

        Raises:
            NoCommitTimes: a database does not keep the times that are asked for.
        """
        there = found.rows.column("there").to_pylist()
        of_both = {Reference.MASTER: Take.MASTER, Reference.SITE: Take.SITE}
        right = (
            newest(held, member, found.rows)
            if self.reference is Reference.NEWEST
            else [of_both[self.reference]] * found.rows.num_rows
        )
        return [
            of_row if kind is Kind.DIFFERS else self._of_one_side(kind, there=outside)
            for kind, of_row, outside in zip(found.kinds, right, there, strict=True)
        ]

    def _of_one_side(self, kind: Kind, *, there: bool) -> Take:
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


def newest(
    held: Moments, member: Member, rows: pa.Table, by: str | None = None
) -> list[Take]:
    """The side that wrote each row last; none if that is not known of both.

    Parameters:
        by: the column that tells; commit times if none is given.

    Raises:
        NoCommitTimes: a database does not keep the times of commits.
    """
    theirs = _times(held.sides.master, member, member.master, rows, by)
    ours = _times(held.sides.site, member, member.base, rows, by)
    return [
        Take.NOTHING
        if number not in theirs or number not in ours
        else Take.MASTER
        if theirs[number] >= ours[number]
        else Take.SITE
        for number in range(rows.num_rows)
    ]


def _times(
    side: Side, member: Member, table: Table, rows: pa.Table, by: str | None
) -> dict[int, Decimal]:
    """When rows were written at a side, by their numbers."""
    if by is None:
        commit_times.require(side.at, side.site.name)
    if not rows.num_rows:
        return {}
    identity = member.snapshot.identity_columns
    names = member.snapshot.key_names
    wanted = keys.numbered(rows.select(list(names)), member.key_types(table))
    source = _with_xmin(table)
    columns = dict(zip(names, identity, strict=True))
    same = keys.same(names, wanted, lambda name: source.c[columns[name]])
    written = _written(table, source, by)
    query = select(wanted.c.no, cast(written, Numeric)).join_from(wanted, source, same)
    found = side.at.execute(query.where(written.is_not(None))).all()
    return {int(number): Decimal(at) for number, at in found}


def _written(
    table: Table, source: sa.TableClause, by: str | None
) -> sa.ColumnElement[Any]:
    """What grows from one version of a row to the next."""
    if by is None:
        return sa.extract("epoch", commit_times.of(source.c.xmin))
    is_time = table.column(by).recorded.startswith(("timestamp", "date"))
    return sa.extract("epoch", source.c[by]) if is_time else source.c[by]


def _with_xmin(table: Table) -> sa.TableClause:
    columns = (sa.column(c.name, c.sql_type) for c in table.columns)
    return sa.table(table.name, sa.column("xmin"), *columns, schema=table.schema)
