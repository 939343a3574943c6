"""What programs hold at a database: locks on some work, and transactions.

Of a program that is gone, the server processes go a moment later.
"""

from collections.abc import Iterable

from sites import Site
from tests.fix_worker import eventually
from tests.linked_table import run

_HOLDERS = """
SELECT pid FROM pg_stat_activity a
WHERE datname = current_database() AND backend_type = 'client backend'
  AND pid <> pg_backend_pid()
  AND (xact_start IS NOT NULL OR EXISTS (
    SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory'))
"""


#: How many locks on some work the sessions of a database hold.
LOCKS = """
SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
WHERE l.locktype = 'advisory' AND d.datname = current_database()
"""

#: Ends our sessions that keep others from the same work.
END_LOCKS = """
SELECT pg_terminate_backend(pid, 90000) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'snaptide'
  AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')
"""

#: Our sessions that have written and not committed. Whoever came now would wait for
#: them: where one thread plays all processes, for ever.
WRITING = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'snaptide'
  AND backend_xid IS NOT NULL
"""


#: The sessions that wait for others, of users and of ours.
WAITS = """
SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def wait_until_let_go(sites: Iterable[Site]) -> None:
    """Wait until no session has a transaction or an advisory lock.

    For who takes over from a process that was killed, or from a line that was cut:
    as long as its sessions are there, another push or refresh finds that one runs.
    """
    for site in sites:
        eventually(
            lambda: not run(site, _HOLDERS),  # noqa: B023
            what=f"what was held at {site.name}: to be let go",
        )
