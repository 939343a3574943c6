"""Writing verdicts into the staged changes, with one statement for rows alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Connection, Text
from sqlalchemy.sql.dml import Update

from masters.apply.images import chosen
from masters.apply.resolve import Explicit, Take
from masters.apply.verdict import Start, Verdict
from sites.transfer.values import Numbers, as_text, from_text, unnested
from sites.writing.staged import Staged


def restage(
    connection: Connection, staged: Staged, unit: int, verdicts: Sequence[Verdict]
) -> None:
    """Change staged rows as the verdicts on them say. Writes the work table.

    Raises:
        sqlalchemy.exc.DBAPIError: a value that a method computed does not fit.
    """
    dropped = _calls(one for one in verdicts if one.becomes is None)
    if dropped:
        connection.execute(
            sa.delete(staged.source).where(chosen(staged, unit, dropped))
        )
    kept = [verdict for verdict in verdicts if verdict.becomes is not None]
    alike: dict[tuple[object, ...], list[Verdict]] = {}
    for one in kept:
        alike.setdefault(_shape(one), []).append(one)
    for group in alike.values():
        connection.execute(_update(connection, staged, unit, group))


def _calls(verdicts: Iterable[Verdict]) -> Numbers:
    return Numbers.together(one.call_nos for one in verdicts)


def _shape(verdict: Verdict) -> tuple[object, ...]:
    """What the statement depends on; verdicts of one shape differ only in values."""
    columns = verdict.columns
    return (
        verdict.becomes,
        verdict.start,
        verdict.rebased,
        *columns,
        *(s if isinstance(s, Take) else None for s in columns.values()),
    )


def _update(
    connection: Connection, staged: Staged, unit: int, verdicts: Sequence[Verdict]
) -> Update:
    first = verdicts[0]
    computed, calls = sorted(first.explicit), _calls(verdicts)
    answer = unnested(
        "answer",
        {
            "call_no": (BigInteger(), calls),
            **{
                f"v{n}": (Text(), _texts(connection, verdicts, name))
                for n, name in enumerate(computed)
            },
        },
    )
    target = staged.table.sql()
    values: dict[Any, Any] = {staged.source.c.kind: first.becomes}
    for n, name in enumerate(staged.columns, 1):
        old, new = staged.source.c[f"o{n}"], staged.source.c[f"n{n}"]
        source = first.columns.get(name)
        if first.start is not Start.KEPT:
            values[old] = target.c[name] if first.start is Start.CURRENT else sa.null()
        if isinstance(source, Explicit):
            text = answer.c[f"v{computed.index(name)}"]
            values[new] = from_text(text, staged.table.column(name).type)
        elif source is Take.CURRENT:
            values[new] = target.c[name]
        elif source is None and first.rebased:
            # The column is in no conflict: it takes the call's value if the call
            # changed it, and else the master's.
            unchanged = staged.table.column(name).unchanged(old, new)
            values[new] = sa.case((unchanged, target.c[name]), else_=new)
    mine = chosen(staged, unit, calls)
    if computed:
        same = staged.source.c.call_no == answer.c.call_no
        mine = sa.and_(staged.source.c.unit == unit, same)
    statement = sa.update(staged.source).values(values).where(mine)
    if first.start is Start.CURRENT:
        statement = statement.where(staged.same_row(target))
    return statement


def _texts(
    connection: Connection, verdicts: Sequence[Verdict], name: str
) -> list[str | None]:
    """The computed values of a column, one for each call."""
    return [
        text
        for one in verdicts
        for text in [as_text(connection, one.explicit[name])] * len(one.call_nos)
    ]
