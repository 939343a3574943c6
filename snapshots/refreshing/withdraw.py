"""Withdraws changes of rows that leave a snapshot with the policy park.

The rows can then leave at once. So do rows that users added below them: the master does
not know these, but their parents leave. What was withdrawn stands in the error queue of
the site (`deferred.parked.withdrawn`).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, exists, not_, or_, select, update

from deferred.parked import withdrawn
from snapshots.definitions.policy import Leaving
from snapshots.differences.window import Window
from snapshots.errors import ChangeWithdrawn
from snapshots.merging import held_back, obstacles, writing
from snapshots.merging.work import Work
from snapshots.refreshing.task import Task


def from_queue(
    connection: Connection, group: Sequence[Work], window: Window, task: Task
) -> dict[str, int]:
    """Withdraw what waits of rows that leave, before the rows are held back for it.

    Returns:
        By snapshot, how many transactions with changes of it were withdrawn.
    """
    ordered = writing.in_order(group)
    chosen = [w for w in ordered if w.member.snapshot.leaving == Leaving.PARK]
    if not chosen:
        return {}
    for changes in chosen:
        _mark_added(connection, changes, ordered, window)
    names = [w.member.snapshot.key for w in chosen]
    wanted = withdrawn.Withdrawal(
        site=task.who,
        destination=task.group.master,
        batch_no=window.marker.batch_no,
        order_no=window.marker.order_no,
        rows={
            w.member.snapshot.key: select(
                *(
                    key.label(name)
                    for key, name in zip(
                        w.keys, w.member.snapshot.key_names, strict=True
                    )
                )
            ).where(w.table.c.leaves)
            for w in chosen
        },
        error_code=ChangeWithdrawn.code,
        error_message=f"Rows left {', '.join(names)} before the change was pushed.",
    )
    return withdrawn.withdraw(connection, wanted)


def _mark_added(
    connection: Connection, changes: Work, group: Sequence[Work], window: Window
) -> None:
    """Have rows leave that users added below rows that leave."""
    by_table = {w.staged.table.qualified: w for w in group}
    base = changes.staged.table.sql().alias("row")
    below = []
    for link in obstacles.links_up(changes, by_table):
        above = link.parent.staged.table.sql().alias("above")
        goes = link.parent.table.alias("goes")
        below.append(
            exists().where(
                goes.c.leaves,
                link.parent.staged.same_row(above, goes),
                obstacles.refers(link, base, above),
                changes.staged.same_row(base),
            )
        )
    if below:
        table = changes.table
        connection.execute(
            update(table)
            .where(
                table.c.kind == "D",
                not_(table.c.leaves),
                held_back.is_pending(changes, window),
                or_(*below),
            )
            .values(leaves=True)
        )
