"""Tables beside those of the conditions: of many types, and without a key.

Rows of history 0 are there to be planted in: no user writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from masters.log.snapshot_log import ROWID
from snapshots.differences.buckets import BUCKETS
from tests.oracle.conditions.schema import Schema

#: The history whose rows no user writes.
RESERVED = 0

KINDS, KEYLESS = "kinds", "keyless"

#: Which rows fall into the first bucket, and into the last.
_BUCKET = (
    "hashint8extended(hash_record_extended(ROW(g), seed), seed)"
    f" & {BUCKETS - 1} AS bucket"
)
DDL = (
    """
    CREATE TABLE kinds (
        id int PRIMARY KEY, h int NOT NULL, v int, n numeric, f float8, note text,
        blob bytea, at timestamptz, js json,
        twice int GENERATED ALWAYS AS (v * 2) STORED
    )
    """,
    "CREATE TABLE keyless (h int NOT NULL, a int, b text, note text)",
    r"""
    INSERT INTO kinds
    SELECT g, 0, g % 4, 1.0, 0, U&'caf\00e9 ' || g, '\x00ff', '2026-01-01', '{"a": 1}'
    FROM generate_series(0, 8) g
    """,
    f"""
    INSERT INTO kinds
    WITH numbered AS MATERIALIZED (
        SELECT g, {_BUCKET}
        FROM generate_series(1000000, 1150000) g,
            hashtextextended(getdatabaseencoding(), 0) seed
    )
    SELECT g, 0, 1, 1.0, 0, 'boundary ' || g, 'x', '2026-01-01', '{{}}'
    FROM numbered WHERE bucket IN (0, {BUCKETS - 1})
    """,
    """
    INSERT INTO keyless SELECT 0, g % 2, 'b', 'note ' || g
    FROM generate_series(1, 5) g
    """,
)
_INSERT = "INSERT INTO kinds (id, h, v, n, note) VALUES ({id}, {h}, {k}, 1.0, '{t}')"
#: What users of history {h} write; {k} is one of few numbers, {t} a text.
WRITES = (
    _INSERT,
    f"{_INSERT} ON CONFLICT DO NOTHING",
    "UPDATE kinds SET note = '{t}', v = v + 1 WHERE id = {id}",
    "UPDATE kinds SET n = n + 0.00, f = -{k} WHERE id = {id}",
    "UPDATE kinds SET js = '[{k}]', at = '2026-01-0{k}' WHERE id = {id}",
    "DELETE FROM kinds WHERE id = {id}",
    "INSERT INTO keyless (h, a, b, note) VALUES ({h}, {k}, 'b', 'same')",
    "UPDATE keyless SET note = '{t}' WHERE h = {h} AND a = {k}",
    "UPDATE keyless SET a = a % 3 + 1 WHERE h = {h} AND a = {k}",
    "DELETE FROM keyless WHERE h = {h} AND a = {k}",
)


def writes(chance: Random, history: int) -> list[str]:
    """A transaction of a user of a history."""
    found = []
    for _ in range(chance.choice((1, 1, 2))):
        k = chance.randint(1, 5)
        text = f"{history}.{chance.randrange(10**6)}"
        statement = chance.choice(WRITES)
        found.append(statement.format(h=history, id=history * 100 + k, k=k, t=text))
    return found


def clash(chance: Random, history: int) -> str:
    """A statement that changes a row of a history; {name} is who changes it."""
    k = chance.randint(1, 5)
    text = f"{history}.{chance.randrange(10**6)}"
    return (
        f"INSERT INTO kinds (id, h, v, n, note) VALUES ({history * 100 + k}, {history},"
        f" {k}, 1.0, '{text} {{name}}') ON CONFLICT (id) DO UPDATE"
        " SET note = excluded.note"
    )


@dataclass(frozen=True, slots=True)
class Target:
    """A snapshot of a site, and what it is of.

    Parameters:
        name: of the snapshot.
        defined: its whole condition; None for all rows.
    """

    name: str
    table: str
    defined: str | None
    key: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def base(self) -> str:
        """Its table at the site."""
        return f"snap$_{self.name}"


def kinds(defined: str | None) -> Target:
    """The snapshot of the table of many types."""
    values = ("h", "v", "n", "f", "note", "blob", "at", "js", "twice")
    return Target(KINDS, KINDS, defined, ("id",), ("id", *values))


def keyless() -> Target:
    """The snapshot of the table without a key."""
    return Target(KEYLESS, KEYLESS, None, (ROWID,), ("h", "a", "b", "note", ROWID))


def of_plan(schema: Schema, name: str, table: str, defined: str | None) -> Target:
    """A snapshot whose condition asks other tables."""
    made: Sequence[str] = schema[table].columns
    return Target(name, table, defined, schema[table].key, tuple(made))
