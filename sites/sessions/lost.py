"""Names the site that went away while work at several sites was going on.

What fails then is a statement, Spark or a push: none of them knows which site it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from sites.errors import SiteUnreachable
from sites.sessions.site import Site


@contextmanager
def told(*sessions: tuple[str, Connection]) -> Iterator[None]:
    """Name the site that went away, whatever the block fails with because of it.

    Parameters:
        sessions: with the names of their sites; the block may use them.

    Raises:
        SiteUnreachable: a session is lost; the cause is what the block raised.
    """
    try:
        yield
    except SiteUnreachable:
        raise
    except Exception as error:
        # Ask all of them: a lost session that nobody has asked fails when it is closed.
        gone = [name for name, session in sessions if _is_lost(session)]
        if not gone:
            raise
        raise SiteUnreachable(
            f"Site {gone[0]} stopped answering.", site=gone[0]
        ) from error


@contextmanager
def told_of(*sites: Site) -> Iterator[None]:
    """The same for a block that opens its own sessions.

    Holds a session at each site meanwhile, outside a transaction.

    Raises:
        SiteUnreachable: a site does not answer, or did not in the meantime.
    """
    with ExitStack() as stack:
        sessions = [(one.name, stack.enter_context(one.session())) for one in sites]
        with told(*sessions):
            yield


def _is_lost(session: Connection) -> bool:
    if session.invalidated:  # it would connect anew
        return True
    try:
        session.rollback()
        session.scalar(text("SELECT 1"))
    except SQLAlchemyError:
        return True
    return False
