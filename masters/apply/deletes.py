"""When rows were deleted at a master: Informix's delete table, in the snapshot log.

The log notes each delete with its time, and keeps it until every snapshot has seen it.
A change may arrive later than that (it was parked, or a refresh came before its push).
So the purge of the log keeps deletes for a while if the table's rules ask for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Connection, DateTime, func, select

from masters.apply.detect import SourceTransaction
from masters.log import ring
from masters.log.catalog import find_log
from sites.catalog import SCHEMA
from sites.names import numbered
from sites.transfer.types import NativeType, Xid8
from sites.transfer.values import unnested
from sites.writing.staged import UPDATES, Staged

_WHEN = DateTime(timezone=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletes:
    """The deletes of one table that its snapshot log knows of."""

    staged: Staged
    log: sa.TableClause
    #: the columns of the log's keys, in their order
    identity: tuple[str, ...]

    def latest(self) -> ColumnElement[Any]:
        """When the row of a staged change was last deleted; NULL if unknown.

        A TRUNCATE may have deleted any row that the site had before its change.
        """
        by_key = self._last("'D'").where(self._same_key()).scalar_subquery()
        first = self.log.c[numbered("k", self.identity)[0]]
        emptied = self._last("'T'").where(first.is_(None)).scalar_subquery()
        was_there = self.staged.kind(*UPDATES, "D", "R", "S")
        return func.greatest(by_key, sa.case((was_there, emptied)), type_=_WHEN)

    def date(
        self,
        connection: Connection,
        unit: int,
        transaction_of: Callable[[int], SourceTransaction],
    ) -> None:
        """Give the deletes of a unit that was written the time of their origin.

        Writes the snapshot log.
        """
        source = self.staged.source
        mine = sa.and_(source.c.unit == unit, self.staged.kind("D"))
        orders = connection.scalars(select(source.c.tran).where(mine).distinct())
        dated = {order: transaction_of(order).changed_at for order in orders}
        # If the time at the origin is not known, the time of the master stays.
        known = {order: at.isoformat() for order, at in dated.items() if at}
        moment = unnested(
            "moment",
            {"tran": (BigInteger(), [*known]), "at": (_WHEN, [*known.values()])},
        )
        connection.execute(
            sa.update(self.log)
            .values(at=moment.c.at)
            .where(self.log.c.xid == func.pg_current_xact_id(type_=Xid8()))
            .where(self.log.c.kind == sa.literal_column("'D'"), self._same_key())
            .where(mine, source.c.tran == moment.c.tran)
        )

    def _last(self, kind: str) -> sa.Select[Any]:
        of_kind = self.log.c.kind == sa.literal_column(kind)
        return select(func.max(self.log.c.at)).where(of_kind)

    def _same_key(self) -> ColumnElement[bool]:
        keys = numbered("k", self.identity)
        return sa.and_(
            *(
                self.log.c[key] == self.staged.key(name)
                for key, name in zip(keys, self.identity, strict=True)
            )
        )


def known(connection: Connection, staged: Staged) -> Deletes | None:
    """The deletes of a table; None if the log cannot tell.

    There may be no log, or the changes may not carry the columns of its keys.
    """
    log = find_log(connection, staged.table.qualified)
    if log is None or not set(log.identity_columns) <= set(staged.columns):
        return None
    identity = tuple(log.identity_columns)
    keys = [
        sa.column(key, NativeType(ring.key_type(column), column.equality))
        for key, column in zip(
            numbered("k", identity), map(staged.table.column, identity), strict=True
        )
    ]
    return Deletes(
        staged=staged,
        log=sa.table(
            log.log_table,
            sa.column("kind", sa.Text),
            sa.column("xid", Xid8()),
            sa.column("at", _WHEN),
            *keys,
            schema=SCHEMA,
        ),
        identity=identity,
    )
