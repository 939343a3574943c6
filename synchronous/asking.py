"""Asks for the calls that a statement captured, in the statement's own round trip.

The driver has a pipeline for that, which costs the application's process more than the
statement itself, and one more round trip for BEGIN. So the driver only translates the
statement and reads its answer; this file does the exchange in between.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult

from synchronous.exchange import Pipeline
from synchronous.prepared import Translated
from synchronous.template import Bound


def execute(
    cursor: psycopg.Cursor[Any], statement: str, values: Any, question: Bound
) -> PGresult:
    """Run a statement as its cursor would, and a question of ours behind it.

    Returns:
        The answer to the question; the cursor has the answer to the statement.

    Raises:
        psycopg.Error: the statement failed; nothing was asked.
    """
    driver = cursor.connection
    cursor._tx = Transformer(cursor)
    query = cursor._convert_query(statement, values)
    with Pipeline(driver) as site:
        site.send(
            *_begin(driver),
            Translated(
                text=query.query,
                values=query.params,
                types=query.types,
                formats=query.formats,
            ),
            question,
        )
        *_, answer, asked = site.answers()
    cursor._set_results([answer])
    return asked


def rows(driver: psycopg.Connection[Any], answer: PGresult) -> list[tuple[Any, ...]]:
    """The rows of an answer, as the driver reads values."""
    if not answer.ntuples:
        return []
    reader = Transformer(driver)
    reader.set_pgresult(answer)
    return reader.load_rows(0, answer.ntuples, tuple)


def _begin(driver: psycopg.Connection[Any]) -> list[Bound]:
    """The statement that begins a transaction as the driver would, if none is open."""
    if driver.autocommit or driver.pgconn.transaction_status != TransactionStatus.IDLE:
        return []
    return [Bound(text=driver._get_tx_start_command().decode())]
