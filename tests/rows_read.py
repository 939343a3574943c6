"""How many rows of a table a master's sessions have read."""

from __future__ import annotations

from sites import Site
from tests.fix_worker import eventually
from tests.linked_table import scalar

_SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend'
  AND pid <> pg_backend_pid()
"""
_READ = """
SELECT sum(t.seq_tup_read) + (
    SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i
    WHERE i.relname LIKE '{table}%')
FROM pg_stat_user_tables t WHERE t.relname LIKE '{table}%'
"""


def rows_read(hq: Site, table: str) -> int:
    """How many rows, or entries of indexes, sessions that have ended have read of it.

    Parameters:
        hq: every session of it must be over, or be ended by closing this.
    """
    hq.close()
    # Sessions report what they have read when they end.
    eventually(lambda: scalar(hq, _SESSIONS) == 0, what="the sessions: to be gone")
    return int(scalar(hq, _READ.format(table=table)))
