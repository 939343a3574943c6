"""Reads what a server says of statements that were sent together."""

from __future__ import annotations

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

#: What statements that have not failed end with.
GOOD = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK, ExecStatus.EMPTY_QUERY)


def results_of(pgconn: PGconn) -> PQGen[list[PGresult]]:
    """Read all: a commit without a statement, or a timeout, can fail at the end.

    If the server ends the session, the last result says why.
    """
    found: list[PGresult] = []
    try:
        while some := (yield from generators.fetch_many(pgconn)):
            if some[0].status == ExecStatus.PIPELINE_SYNC:
                break
            found += some
    except psycopg.Error:
        if not found or found[-1].status in GOOD:
            raise
    return found
