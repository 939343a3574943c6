"""One statement to be tried: what there is before, what is run, and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sites import Site

#: Statements, or what runs them; `{t}` is the table.
Act = str | Callable[[Site, str], None]

TABLE = "CREATE TABLE {t} (id int PRIMARY KEY, v text, n int)"
ROWS = "INSERT INTO {t} SELECT g, 'v' || g, g FROM generate_series(1, 5) g"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A statement, and the table that it is about.

    Statements are separated by `;;`, and run in one transaction.
    """

    act: Act
    #: at the master, before the log is made
    table: str = TABLE
    rows: str = ROWS
    #: at the site, when the snapshots are loaded
    prepare: str = ""
    #: other tables with a log and a snapshot: `{t}` and something
    others: tuple[str, ...] = ()
    with_rowid: bool = False
    condition: str | None = None
    columns: tuple[str, ...] | None = None
    updatable: bool = True
    #: what the error says, if the statement is refused
    refused: str = ""
    #: oldest major version that has the statement
    since: int = 16
    #: this case is about a row that another one is about too
    more: tuple[Case, ...] = field(default=())
