"""Changes of rows that nothing captures, at a site or at its master."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from snapshots import Kind
from tests.linked_table import announced
from tests.oracle.checks.tables import KEYLESS, KINDS, RESERVED, Target

Session = psycopg.Connection[TupleRow]
#: A key, as texts.
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """A way to make a row differ.

    Parameters:
        needs: how many rows of the snapshot it takes.
        kind, columns: as a check has to call it, planted at the site; without a kind,
            the row is there at one side alone.
        only: the table that it is about; None for any.
        where: of the rows that it takes.
        at_site: it is possible at sites alone. If the master computes a column
            otherwise, the check is refused (`ColumnChanged`), as the next refresh is.
        first: a statement that has to come before.
    """

    statement: str
    needs: int = 1
    kind: Kind | None = Kind.DIFFERS
    columns: tuple[str, ...] = ()
    only: str | None = None
    where: str = "true"
    at_site: bool = False
    first: str | None = None


_LATER = "id >= 1000000"
PLANTS = {
    "row deleted": Plant(statement="DELETE FROM {t} WHERE {one}", kind=None),
    "column changed": Plant(
        statement="UPDATE {t} SET note = 'planted' WHERE {one}", columns=("note",)
    ),
    "column emptied": Plant(
        statement="UPDATE {t} SET note = NULL WHERE {one}", columns=("note",)
    ),
    "row inserted": Plant(
        statement="INSERT INTO {t} ({all}) SELECT {new} FROM {t} WHERE {one}",
        kind=None,
    ),
    "values swapped": Plant(
        statement="UPDATE {t} SET note = CASE WHEN {one}"
        " THEN (SELECT note FROM {t} WHERE {other})"
        " ELSE (SELECT note FROM {t} WHERE {one}) END WHERE {one} OR {other}",
        needs=2,
        columns=("note",),
    ),
    "1.0 against 1.00": Plant(
        statement="UPDATE {t} SET n = n + 0.00 WHERE {one}", columns=("n",), only=KINDS
    ),
    "-0.0": Plant(
        statement="UPDATE {t} SET f = '-0' WHERE {one}", columns=("f",), only=KINDS
    ),
    "NFC against NFD": Plant(
        statement="UPDATE {t} SET note = normalize(note, NFD) WHERE {one}",
        columns=("note",),
        only=KINDS,
        where="id < 1000",
    ),
    "row duplicated": Plant(
        statement="INSERT INTO {t} ({all}) SELECT {new} FROM {t} WHERE {one}",
        kind=None,
        only=KEYLESS,
    ),
    "boundary row deleted": Plant(
        statement="DELETE FROM {t} WHERE {one}", kind=None, only=KINDS, where=_LATER
    ),
    "boundary row changed": Plant(
        statement="UPDATE {t} SET v = 2 WHERE {one}",
        columns=("v", "twice"),
        only=KINDS,
        where=_LATER,
    ),
    "generated column": Plant(
        statement="UPDATE {t} SET twice = -1 WHERE {one}",
        columns=("twice",),
        only=KINDS,
        at_site=True,
        first="ALTER TABLE {t} ALTER COLUMN twice DROP EXPRESSION IF EXISTS",
    ),
}


@dataclass(slots=True)
class Planter:
    """Changes the reserved rows of one table while nothing captures it.

    Parameters:
        at_site: the table is the base table of a snapshot.
        as_refresh: changes come as those of a refresh; otherwise triggers are off.
    """

    session: Session
    target: Target
    at_site: bool
    as_refresh: bool
    #: where it keeps rows
    kept: str

    @property
    def table(self) -> str:
        """Its name, quoted."""
        name = self.target.base if self.at_site else self.target.table
        return sql.Identifier("public", name).as_string()

    def keep(self) -> None:
        """Remember the reserved rows."""
        query = f"SELECT * FROM {self.table} WHERE h = {RESERVED}"
        self._run([f"CREATE TEMP TABLE {self.kept} AS {query}"])

    def put_back(self) -> None:
        """Make the reserved rows what they were."""
        self.as_refresh = False  # a refresh may bring a row between the statements
        found = self.session.execute(
            "SELECT quote_ident(attname) FROM pg_attribute"
            " WHERE attrelid = to_regclass(%s) AND attnum > 0"
            " AND NOT attisdropped AND attgenerated = ''",
            [self.table],
        ).fetchall()
        listed = ", ".join(name for (name,) in found)
        self.change(
            f"DELETE FROM {self.table} WHERE h = {RESERVED}",
            f"INSERT INTO {self.table} ({listed}) SELECT {listed} FROM {self.kept}",
        )
        self._run([f"DROP TABLE {self.kept}"])

    def plant(self, what: Plant, keys: Sequence[Key], chance: Random) -> None:
        """Change rows of these keys in that way."""
        named = [self._named(key) for key in keys]
        new = self._new(keys[0], chance)
        filled = {
            "t": self.table,
            "one": named[0],
            "other": named[-1],
            "all": ", ".join(self._columns()),
            "new": ", ".join(new.get(name, name) for name in self._columns()),
        }
        texts = [what.first] if what.first else []
        self.change(*(one.format(**filled) for one in (*texts, what.statement)))

    def _columns(self) -> list[str]:
        return [name for name in self.target.columns if name != "twice"]

    def _named(self, key: Key) -> str:
        pairs = zip(self.target.key, key, strict=True)
        return " AND ".join(
            f"{name}::text = {sql.quote(value)}" for name, value in pairs
        )

    def _new(self, key: Key, chance: Random) -> dict[str, str]:
        """The columns of a key that no row has, as SQL."""
        number = chance.randint(50, 99)
        if len(key) > 1:
            return {self.target.key[-1]: f"'{number}'"}
        if self.target.table == KEYLESS:
            new = "gen_random_uuid()"
        else:
            new = f"{number}" if key[0].isdigit() else f"'{RESERVED}-{number}'"
        return {self.target.key[0]: new}

    def change(self, *statements: str) -> None:
        """Run statements that nobody notices, as soon as others let go of the table.

        All locks come at once: otherwise it and a refresh could wait for each other.
        """
        for _ in range(1000):
            with suppress(psycopg.errors.LockNotAvailable), self.session.transaction():
                self.session.execute("SET LOCAL lock_timeout = '100ms'")
                lock = "ROW EXCLUSIVE" if self.as_refresh else "ACCESS EXCLUSIVE"
                self._run([f"LOCK TABLE {self.table} IN {lock} MODE"])
                self._unseen(statements)
                return
        raise AssertionError(f"{self.table} cannot be changed")

    def _unseen(self, statements: Sequence[str]) -> None:
        self.session.execute("SET LOCAL session_replication_role = replica")
        if self.as_refresh:
            self.session.execute("SET LOCAL snaptide.origin = 'hq'")
            self._run(announced(*statements))
            return
        triggers = self.session.execute(
            "SELECT quote_ident(tgname), CASE tgenabled WHEN 'A' THEN 'ALWAYS '"
            " WHEN 'R' THEN 'REPLICA ' ELSE '' END FROM pg_trigger"
            " WHERE tgrelid = to_regclass(%s) AND NOT tgisinternal"
            " AND tgenabled <> 'D'",
            [self.table],
        ).fetchall()
        alter = f"ALTER TABLE {self.table}"
        self._run(f"{alter} DISABLE TRIGGER {name}" for name, _ in triggers)
        self._run(statements)
        self._run(f"{alter} ENABLE {how}TRIGGER {name}" for name, how in triggers)

    def _run(self, statements: Iterable[str]) -> None:
        for statement in statements:
            self.session.execute(_sql(statement))


def _sql(text: str) -> sql.SQL:
    return sql.SQL(text)
