"""The last statement of a coordinated transaction at its site.

It removes the calls, keeps their keys and writes the decision, all in one statement:
several would be sent, planned and answered one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.dml import UpdateBase

from deferred.catalog import decision, deferred_transaction
from deferred.queues.queue import Queue, changes_key
from sites.names import numbered
from sites.transfer.types import Xid8
from synchronous.prepared import Template


@dataclass(frozen=True, slots=True, kw_only=True)
class LastStatement:
    """The last statement of a transaction with calls in some queues."""

    template: Template
    #: each queue's master, by the parameter that takes its transaction's id
    masters: dict[str, str]


def build(queues: Sequence[Queue]) -> LastStatement:
    """The statement that takes the calls out and writes the decision.

    Its parameters, besides those for the masters: xid, the id of the transaction;
    applied, the number of calls that the masters have applied; gid and names of the
    decision; settled, the ids of decisions that every master has confirmed.

    If the site has another number of calls (some were undone past the coordinator),
    the decision has no name, and the statement fails.
    """
    settled = sa.cast(sa.cast(_bound("settled"), ARRAY(sa.Text)), ARRAY(Xid8()))
    taken = [_taken(queue) for queue in queues]
    here: sa.ColumnElement[int] = sum(
        (
            sa.select(sa.func.count()).select_from(one).scalar_subquery()
            for one in taken
        ),
        start=sa.literal_column("0"),
    )
    applied = sa.cast(sa.cast(_bound("applied"), sa.Text), sa.BigInteger)
    parts = [
        *taken,
        *(_kept(queue, one) for queue, one in zip(queues, taken, strict=True)),
        sa.delete(deferred_transaction)
        .where(deferred_transaction.c.xid == _xid("xid"))
        .cte("done"),
        sa.delete(decision).where(decision.c.xid == sa.func.any(settled)).cte("gone"),
    ]
    written = sa.insert(decision).from_select(
        ["xid", "gid", "masters"],
        sa.select(
            _xid("xid"),
            sa.case((here == applied, sa.cast(_bound("gid"), sa.Text))),
            sa.cast(_bound("names"), ARRAY(sa.Text)),
        ),
    )
    return LastStatement(
        template=Template.of(written.add_cte(*parts)),
        masters={_master_xid(q): q.destination for q in queues},
    )


def _taken(queue: Queue) -> sa.CTE:
    """Takes the calls out of a queue."""
    calls = queue.sql()
    taken: UpdateBase = sa.delete(calls).where(calls.c.xid == _xid("xid"))
    new = [
        sa.case((changes_key(calls), key.element)).label(f"new_{key.name}")
        for key in queue.new_keys(calls)
    ]
    return taken.returning(*queue.keys(calls), *new).cte(f"taken_{queue.id}")


def _kept(queue: Queue, gone: sa.CTE) -> sa.CTE:
    """Keeps the keys of those calls, for the next refresh.

    The rows are pending until a refresh sees the master's transaction: between the two
    commits it would show the old ones.
    """
    names = numbered("k", queue.identity_columns)
    extra = queue.extra
    assert extra is not None
    why: list[sa.ColumnElement[Any]] = [
        sa.literal_column("'synchronous'"),
        _xid(_master_xid(queue)),
    ]
    new = [gone.c[f"new_{name}"] for name in names]
    keys = sa.union(
        sa.select(*(gone.c[name] for name in names), *why),
        sa.select(*new, *why).where(new[0].is_not(None)),
    )
    written = sa.insert(extra).from_select([*names, "reason", "master_xid"], keys)
    return written.cte(f"kept_{queue.id}")


def _master_xid(queue: Queue) -> str:
    return f"master_xid_{queue.id}"


def _xid(name: str) -> sa.ColumnElement[object]:
    return sa.cast(sa.cast(_bound(name), sa.Text), Xid8())


def _bound(name: str) -> sa.BindParameter[object]:
    return sa.bindparam(name, None, type_=sa.types.NullType())
