"""The driver's connection below our sessions: a commit ends all settings of users'.

A trigger or procedure of a user's may SET something for the rest of the session, not
only for the transaction in which Snaptide's statement fires it. Later transactions of
that session, and those of another task that gets it from the pool, would print values
in another form, or write rows without firing triggers or checking foreign keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from sqlalchemy import Engine, event

#: One message to the server. RESET ALL returns to what the session began with, but
#: leaves the role alone.
COMMIT = "COMMIT; RESET ROLE; RESET ALL"


class RestoringConnection(psycopg.Connection[Any]):
    """A connection whose sessions have their first settings after each commit.

    A rollback takes settings back by itself.
    """

    def commit(self) -> None:
        """Commit, and take back what the transaction has set for the session."""
        if (
            self.info.transaction_status is TransactionStatus.INTRANS
            and self.info.pipeline_status is PipelineStatus.OFF
        ):
            self.execute(COMMIT)
        else:
            super().commit()


def install(engine: Engine) -> None:
    """Let a pool open such connections."""
    event.listen(engine, "do_connect", _connect)


def _connect(
    _dialect: object, _record: object, arguments: list[Any], named: dict[str, Any]
) -> RestoringConnection:
    connect = cast("Callable[..., RestoringConnection]", RestoringConnection.connect)
    return connect(*arguments, **named)
