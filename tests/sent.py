"""The statements that a site is sent: by SQLAlchemy, and by exchanges of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy.event import listen, remove

from sites import Site
from sites.sessions import exchange
from sites.sessions.connections import ENDING


@contextmanager
def noted(site: Site, note: Callable[[str], object]) -> Iterator[None]:
    """Have each statement noted that our sessions send to a site meanwhile."""
    started = exchange._start

    def by_cursor(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        note(statement)

    def by_exchange(
        driver: exchange.Driver, asked: Sequence[exchange.Later], *, apart: bool
    ) -> None:
        if driver.info.dbname == site.url.database:
            for one in (*exchange._session(driver).held, *asked):
                if (said := str(one.statement)) not in ENDING:
                    note(said)
        started(driver, asked, apart=apart)

    listen(site.engine, "before_cursor_execute", by_cursor)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(exchange, "_start", by_exchange)
            yield
    finally:
        remove(site.engine, "before_cursor_execute", by_cursor)


@contextmanager
def sent(site: Site) -> Iterator[list[str]]:
    """The statements that our sessions send to a site meanwhile, in their order."""
    found: list[str] = []
    with noted(site, found.append):
        yield found
