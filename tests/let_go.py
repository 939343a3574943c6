"""What a program that is gone still holds: its server processes go a moment later."""

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
