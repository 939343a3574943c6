"""Rows that leave a snapshot, told apart from rows that the master deleted.

A refresh deletes both at the site. The master still has a row that leaves: it no longer
fulfils the condition, because it changed itself, or because a row changed that the
condition looks for. Of rows that the master grants, `taken_away` says which have left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Boolean, Select, Text, and_, cast, literal_column, select

from sites.conditions.subqueries import Subquery
from sites.extras import pa, pc
from snapshots import keys
from snapshots.definitions.parents import Parent
from snapshots.differences import images, stage, taken_away
from snapshots.differences.comparison import Compared
from snapshots.differences.stage import Stage
from snapshots.differences.window import Member
from snapshots.keys import FEW, Keys, Side, Sides
from snapshots.reports import Cause

#: A report names so many rows of a table; the others are counted together.
NAMED = 5

#: What a condition looks for, where, and the keys there whose rows have changed.
_Asked = Sequence[tuple[Subquery, Parent, Keys]]


def tell_apart(sides: Sides, found: Compared) -> Compared:
    """Ask the master, at the moment that was read, which deleted rows it still has."""
    member = found.member
    deleted = _deleted(sides.site, found)
    if not deleted.num_rows:
        return found
    if member.master.divided:
        away = taken_away.among(sides, member, deleted)
        why = [(taken_away.WHY,)] * away.num_rows
        return replace(found, leaving=_with(away, why))
    asked, names = [*member.asked_again()], list(deleted.column_names)
    there, causes = [_with(keys.none(names), [])], Counter[tuple[str, str]]()
    for some in keys.chunks(deleted):
        query, columns = _still_there(member, some, asked)
        shape = pa.schema([(name, pa.string()) for name in columns])
        rows = sides.master.read(query, shape, many=some.num_rows > FEW)
        each = [*_causes(rows, asked)]
        there.append(_with(rows.select(names), each))
        causes.update(one for one in each if one is not None)
    return replace(found, leaving=pa.concat_tables(there), because=_named(causes))


def _with(found: Keys, causes: Sequence[tuple[str, ...] | None]) -> pa.Table:
    said = ["" if one is None else " ".join(one) for one in causes]
    return found.append_column("cause", pa.array(said, pa.string()))


def _deleted(site: Side, found: Compared) -> Keys:
    """The keys of the rows that a difference deletes."""
    member = found.member
    names, places = member.snapshot.key_names, images.key_positions(member)
    if not isinstance(found.difference, Stage):
        deletes = pc.equal(found.difference.column(0), "D")
        return keys.of_images(found.difference.filter(deletes).select(places), names)
    # Executors have committed it since the moment of this refresh began.
    with site.site.session() as connection:
        table = stage.rows_of(member, found.difference)
        pairs = zip(places, names, strict=True)
        query = select(*(table.c[place].label(name) for place, name in pairs)).where(
            table.c.op == "D", table.c.attempt.in_(found.difference.attempts)
        )
        every = keys.read(Side(site=site.site, at=connection), query, names)
    assert every is not None
    return every


def _still_there(
    member: Member, wanted: Keys, asked: _Asked
) -> tuple[Select[Any], list[str]]:
    """Keys of rows that the master has; which keys they look for and do not find.

    Returns:
        The query, and the names of its columns, which hold texts.
    """
    table, identity = member.master.sql(), member.snapshot.identity_columns
    # The condition may name columns without their table, so the table has to be alone.
    columns = [table.c[name].label(f"i{n}") for n, name in enumerate(identity)]
    columns += [
        literal_column(f"({one.text})", Boolean).label(f"f{n}")
        for n, (one, _, _) in enumerate(asked)
    ]
    columns += [
        table.c[name].label(f"j{n}_{m}")
        for n, (one, _, _) in enumerate(asked)
        for m, name in enumerate(one.columns)
    ]
    rows = select(*columns).subquery("here")
    keys_wanted = keys.as_rows(wanted, member.key_types(member.master))
    pairs = list(enumerate(keys_wanted.c))
    texts: list[Any] = [cast(key, Text).label(key.name) for _, key in pairs]
    texts += [cast(c, Text).label(c.name) for c in [*rows.c][len(identity) :]]
    same = [rows.c[f"i{n}"] == key for n, key in pairs]
    query = rows.join(keys_wanted, and_(*same))
    names = [text.name for text in texts]
    return select(*texts).select_from(query), names


def _causes(rows: pa.Table, asked: _Asked) -> Iterator[tuple[str, str] | None]:
    """With which changed row of another table each row leaves; None with none."""
    looked_for = []
    for n, (one, parent, changed) in enumerate(asked):
        order = [one.key.index(name) for name in parent.key]
        columns = [rows.column(f"j{n}_{m}").to_pylist() for m in order]
        found = rows.column(f"f{n}").to_pylist()
        moved = {*zip(*(c.to_pylist() for c in changed.columns), strict=True)}
        looked_for.append((one, found, list(zip(*columns, strict=True)), moved))
    for row in range(rows.num_rows):
        yield next(
            (
                (str(one.table), ", ".join(key[row]))
                for one, found, key, moved in looked_for
                if key[row] in moved and not (one.required and found[row] == "true")
            ),
            None,
        )


def _named(causes: Counter[tuple[str, str]]) -> tuple[Cause, ...]:
    """The causes of each table: those with most rows by name, the others together."""
    named: list[Cause] = []
    for table in dict.fromkeys(table for (table, _), _ in causes.most_common()):
        of = [(key, n) for (other, key), n in causes.most_common() if other == table]
        named += [Cause(table=table, key=key, rows=n) for key, n in of[:NAMED]]
        if others := sum(n for _, n in of[NAMED:]):
            named.append(Cause(table=table, key=None, rows=others))
    return tuple(named)
