"""The rows of a COPY out, handed on in pieces as libpq receives them.

psycopg reads each row by five calls in Python, and a server that prints rows of 80
characters waits for that more than half of the time. What libpq holds already is
taken from it here, and psycopg waits for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import errors, generators
from psycopg.pq import ExecStatus

from sites.progress import RowsDone

#: How many bytes of a COPY are handed on at a time.
PIECE = 64 * 1024

#: Progress of a COPY is reported each time after this many rows.
COUNTED = 10_000


def hand_on(
    rows: psycopg.Copy,
    write: Callable[[bytes], object],
    on_progress: RowsDone | None = None,
) -> int:
    """Hand on all rows that a COPY has left, several in one piece; return how many.

    Parameters:
        rows: a COPY to STDOUT that a cursor has begun, of text or of binary.
        write: takes a piece.
        on_progress: called from time to time with the number of rows handed on.

    Raises:
        psycopg.Error: the COPY failed, or the connection was lost.
    """
    driver = rows.connection
    held, count = driver.pgconn, 0
    piece = bytearray()
    while True:
        size, row = held.get_copy_data(1)
        if size < 0:
            _end(driver)
            break
        # 0 says that libpq does not have a whole row.
        found = row if size else rows.read()
        if not found:
            break
        count += 1
        piece += found
        if len(piece) >= PIECE:
            write(bytes(piece))
            piece.clear()
        if on_progress and count % COUNTED == 0:
            on_progress(count)
    if piece:
        write(bytes(piece))
    return count


def _end(driver: psycopg.Connection[Any]) -> None:
    """Read the server's last word on a COPY.

    Raises:
        psycopg.Error: it failed.
    """
    last = driver.wait(generators.fetch_many(driver.pgconn))[-1]
    if last.status != ExecStatus.COMMAND_OK:
        raise errors.error_from_result(last, driver.info.encoding)
