"""The transactions that have come to a destination in batches, by its ledger."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection, and_, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.catalog import ledger_horizon, push_batch, push_marker

#: One transaction of a batch.
EACH = (
    func.unnest(
        push_batch.c.orders,
        push_batch.c.started,
        push_batch.c.transactions,
        push_batch.c.origins,
        push_batch.c.made,
    )
    .table_valued(
        sa.column("order_no", sa.BigInteger),
        sa.column("started", sa.DateTime(timezone=True)),
        sa.column("transaction", sa.BigInteger),
        sa.column("origin", sa.Text),
        sa.column("made_at", sa.DateTime(timezone=True)),
        name="each",
    )
    .render_derived()
)

#: When it was made, by the clock of its origin: compare it only for equality.
MADE_AT = func.coalesce(EACH.c.made_at, EACH.c.started)
#: The transactions of all batches in the ledger, and the condition that one has come.
NOTED = push_batch.join(
    push_marker, push_marker.c.origin_id == push_batch.c.origin_id
).join(EACH, sa.true())
HAS_COME = sa.or_(
    push_batch.c.number < push_marker.c.batch_no,
    and_(
        push_batch.c.number == push_marker.c.batch_no,
        EACH.c.order_no <= push_marker.c.order_no,
    ),
)


def take_over(model: Connection, new: Connection) -> None:
    """Tell a new master which transactions came to the master whose rows it copied.

    The ledger does not say which of them changed those rows. Any of them may be in the
    copy already, so the new master counts none as certainly not come.
    """
    origin = func.coalesce(EACH.c.origin, push_marker.c.origin)
    came = (
        select(origin.label("origin"), EACH.c.transaction.label("number"))
        .select_from(NOTED)
        .where(HAS_COME, EACH.c.transaction.is_not(None))
    )
    before = select(ledger_horizon.c.origin, ledger_horizon.c.transaction)
    known = sa.union_all(came, before).subquery()
    last = select(known.c.origin, func.max(known.c.number)).group_by(known.c.origin)
    for name, number in model.execute(last).all():
        row = insert(ledger_horizon).values(origin=name, transaction=number)
        new.execute(
            row.on_conflict_do_update(
                index_elements=[ledger_horizon.c.origin],
                set_={
                    "transaction": func.greatest(
                        ledger_horizon.c.transaction, row.excluded.transaction
                    )
                },
            )
        )
