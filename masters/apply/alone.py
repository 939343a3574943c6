"""Rows about which this master decides alone, so that other masters may differ.

A rule may settle a conflict in another way than the same rule does at another master.
A foreign key may act on rows that another master does not have, or has otherwise. What
becomes of such rows is not the business of `masters`: it only names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Subquery, select

from masters.apply.answers import Settled
from masters.apply.images import chosen
from masters.apply.reached import Path
from masters.apply.reference_record import Cause
from masters.rules.table_rules import TableRules
from sites import QualifiedName
from sites.tables.table import describe
from sites.writing.key_objects import key_object, staged_keys
from sites.writing.staged import Staged

#: Called with a table, a function that makes the query for the keys of rows there, and
#: the rule that decided; None if a foreign key acts on the rows. The query has a column
#: `key`, an object with a text for each column.
Tell: TypeAlias = Callable[[QualifiedName, Callable[[], Subquery], Cause | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Names the rows of a unit that other masters may have otherwise.

    Call it before the rows are restaged, because those that a rule drops leave the
    work table; and again for rows that got other keys.
    """

    unit: int
    #: None if no other master gets the unit's changes by itself
    tell: Tell | None

    def settled(
        self, staged: Staged, rows: Iterable[Settled], rules: TableRules
    ) -> None:
        """Name rows that rules settled."""
        if self.tell is None:
            return
        alike: dict[tuple[int, str | None], tuple[Cause, list[int]]] = {}
        for row in rows:
            for one in row.answer.records:
                cause = Cause(made=row.made, rule=one.rule, rules=rules)
                _, call_nos = alike.setdefault(
                    (id(one.rule), row.made.origin), (cause, [])
                )
                call_nos += row.verdict.call_nos
        for cause, call_nos in alike.values():
            self.followed(staged, call_nos, cause)

    def followed(self, staged: Staged, call_nos: Sequence[int], cause: Cause) -> None:
        """Name staged rows that a rule changed, or drops."""
        if self.tell is not None and call_nos:
            mine = chosen(staged, self.unit, call_nos)
            keys = partial(staged_keys, staged, mine)
            self.tell(staged.table.qualified, keys, cause)

    def reached(self, connection: Connection, paths: Iterable[Path]) -> None:
        """Name rows on which foreign keys will act."""
        if self.tell is None:
            return
        for path in paths:
            self.tell(path.whole, partial(_reached_keys, connection, path), None)


def _reached_keys(connection: Connection, path: Path) -> Subquery:
    key = describe(connection, path.whole).key
    before = {name: path.rows.c[name] for name in key}
    after = {name: path.given.get(name, path.rows.c[name]) for name in key}
    return sa.union(
        *(
            select(key_object(values)).select_from(path.joined).where(*path.others)
            for values in (before, after)
        )
    ).subquery()
