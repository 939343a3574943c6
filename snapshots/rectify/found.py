"""Tells the rows that differ without a reason from those that take their course."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from psycopg import errors as pg
from sqlalchemy.exc import DBAPIError

from sites.extras import pa
from snapshots.check import compare, reasons
from snapshots.check.moments import Moments
from snapshots.check.reader import AtOnce
from snapshots.check.report import Kind, Reason
from snapshots.differences.window import Member
from snapshots.keys import Keys
from snapshots.rectify.errors import BadPlan

#: The key of a plan is no value of its column.
_NO_VALUE = (pg.DataError,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The rows of a snapshot that differ."""

    #: those without a reason: `kind`, `differs`, k1, k2, ... as `spark.diff.rows` has
    #: them, and `there`: the master has the row, outside the subset
    rows: pa.Table
    #: how many others there are, by kind and reason
    left: Counter[tuple[Kind, Reason]]

    @property
    def kinds(self) -> list[Kind]:
        """How each of the rows differs."""
        return list(map(Kind, self.rows.column("kind").to_pylist()))

    def keys(self, member: Member) -> Keys:
        """The keys of the rows."""
        return self.rows.select(list(member.snapshot.key_names))


def everywhere(
    held: Moments, members: Sequence[Member]
) -> Iterator[tuple[Member, Found]]:
    """Compare snapshots with their defining queries, in any order."""
    for one in compare.differing(AtOnce(held.sides), members):
        yield one.member, _told(held, one.member, one.rows)


def of_keys(held: Moments, member: Member, wanted: Keys) -> Found:
    """Compare the rows with these keys.

    Raises:
        BadPlan: one of the keys is no value of its column.
    """
    try:
        return _told(held, member, compare.of_keys(AtOnce(held.sides), member, wanted))
    except DBAPIError as error:
        if not isinstance(error.orig, _NO_VALUE):
            raise
        raise BadPlan(
            f"A key is none of snapshot {member.snapshot.key}: {error.orig}",
            snapshot=member.snapshot.key,
        ) from None


def _told(held: Moments, member: Member, tables: Iterable[pa.Table]) -> Found:
    left, shape = Counter[tuple[Kind, Reason]](), _shape(member)
    unexplained = [shape.empty_table()]
    for table in tables:
        if not table.num_rows:
            continue
        told = reasons.explain(held, member, table)
        kinds = map(Kind, table.column("kind").to_pylist())
        bare = [one.reason is Reason.UNEXPLAINED for one in told]
        left.update(
            (kind, one.reason)
            for kind, one, mine in zip(kinds, told, bare, strict=True)
            if not mine
        )
        there = pa.array([one.detail is not None for one in told], pa.bool_())
        rows = table.append_column("there", there).filter(pa.array(bare, pa.bool_()))
        unexplained.append(rows.cast(shape))
    return Found(rows=pa.concat_tables(unexplained), left=left)


def _shape(member: Member) -> pa.Schema:
    names = ("kind", "differs", *member.snapshot.key_names)
    texts = [(name, pa.string()) for name in names]
    return pa.schema([*texts, ("there", pa.bool_())])
