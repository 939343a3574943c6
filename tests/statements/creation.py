"""What a snapshot can be made of: definitions, and whether the snapshot is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import masters
import snapshots
from masters.errors import CannotLogTable, NoPrimaryKey
from sites import Site
from sites.conditions.where import BadCondition, ConditionNotImmutable
from sites.errors import SnaptideError
from snapshots.definitions import errors
from tests.statements.case import TABLE
from tests.stories import user


@dataclass(frozen=True, kw_only=True)
class Made:
    """A master table, a snapshot of it, and the error or report that comes of it."""

    #: statements at the master, separated by `;;`
    table: str = TABLE
    #: statements at the site before
    site: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    with_rowid: bool = False
    refused: type[SnaptideError] | None = None
    #: part of a reason in the report of what is left out
    left_out: str = ""
    #: oldest major version that has it
    since: int = 16

    def run(self, hq: Site, jfk: Site, table: str) -> snapshots.CreateReport:
        """Make the table, its log and the snapshot."""
        for site, text in ((hq, self.table), (jfk, self.site)):
            with user(site) as session:
                for statement in text.format(t=table).split(";;"):
                    if statement:
                        session.execute(statement)
                session.commit()
        masters.create_snapshot_log(hq, table, with_rowid=self.with_rowid)
        given = dict(self.options)
        if "where" in given:
            given["where"] = given["where"].replace("{t}", table)
        return snapshots.create(jfk, table, master="hq", **given)


def refused(error: type[SnaptideError], **more: Any) -> Made:
    """A definition that is refused."""
    return Made(refused=error, **more)


def made_of(*columns: str) -> str:
    """A table of a key and other columns."""
    return f"CREATE TABLE {{t}} (id int PRIMARY KEY, {', '.join(columns)})"


def options(**given: Any) -> tuple[tuple[str, Any], ...]:
    """Options of `snapshots.create`."""
    return tuple(given.items())


UPDATABLE = options(updatable=True)
NO_KEY = "CREATE TABLE {t} (id int, v text)"
UNPAIRED = "CREATE TABLE {t} (id public.vector(2), n int, PRIMARY KEY (id, n))"
MANY = made_of(*(f"c{n} int" for n in range(2, 402)))
MOST = made_of(*(f"c{n} int" for n in range(2, 401)))
NOW_AND_THEN = ("v > now()::text", "n > random()", "v::timestamptz > 'epoch'")

CASES: dict[str, tuple[Made, ...]] = {
    "a table or partitioned table with a primary key": (
        Made(),
        Made(table=TABLE + " PARTITION BY HASH (id)"),
    ),
    "a table without a primary key": (
        refused(NoPrimaryKey, table=NO_KEY),
        Made(table=NO_KEY, with_rowid=True, options=UPDATABLE),
    ),
    "a key whose type has an equality that can neither be hashed nor merged": (
        refused(CannotLogTable, table=UNPAIRED),
        Made(table=UNPAIRED, with_rowid=True, options=UPDATABLE),
    ),
    "a view, foreign table or materialized view": (
        refused(CannotLogTable, table="CREATE VIEW {t} AS SELECT 1 id"),
        refused(
            CannotLogTable,
            table="CREATE MATERIALIZED VIEW {t} AS SELECT 1 id",
        ),
        refused(
            CannotLogTable,
            table="CREATE FOREIGN DATA WRAPPER {t};; CREATE SERVER {t}"
            " FOREIGN DATA WRAPPER {t};; CREATE FOREIGN TABLE {t} (id int) SERVER {t}",
        ),
    ),
    "an UNLOGGED table, or one with an UNLOGGED partition": (
        refused(CannotLogTable, table="CREATE UNLOGGED TABLE {t} (id int PRIMARY KEY)"),
        refused(
            CannotLogTable,
            table=TABLE + " PARTITION BY HASH (id);; CREATE UNLOGGED TABLE {t}_part"
            " PARTITION OF {t} FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
        ),
    ),
    "a partition or inheritance child of a table": (
        refused(
            CannotLogTable,
            table="CREATE TABLE {t}_above (id int NOT NULL);;"
            " CREATE TABLE {t} (id int PRIMARY KEY);;"
            " ALTER TABLE {t} INHERIT {t}_above",
        ),
        refused(
            CannotLogTable,
            table="CREATE TABLE {t}_above (id int) PARTITION BY RANGE (id);;"
            " CREATE TABLE {t} PARTITION OF {t}_above DEFAULT;;"
            " ALTER TABLE {t} ADD PRIMARY KEY (id)",
        ),
    ),
    "a type that the site lacks, or that is another there": (
        refused(
            errors.MissingAtSite,
            table="CREATE TYPE {t}_x AS ENUM ('a');; " + made_of("v {t}_x"),
        ),
        refused(
            errors.DifferentTypes,
            table="CREATE TYPE {t}_x AS ENUM ('a');; " + made_of("v {t}_x"),
            site="CREATE TYPE {t}_x AS ENUM ('b')",
        ),
    ),
    "a type whose values cannot be read from text (`pg_node_tree`, `gtsvector`, ...)": (
        refused(errors.UnreadableType, table=made_of("v gtsvector[]")),
    ),
    "a condition that is not immutable (`now()`, `random()`, casts that depend on the"
    " time zone)": tuple(
        refused(ConditionNotImmutable, options=options(where=condition))
        for condition in NOW_AND_THEN
    ),
    "a condition with EXISTS or IN over other tables, found by their keys": (
        Made(options=options(where="EXISTS (SELECT FROM {t} p WHERE p.id = {t}.n)")),
        Made(options=options(where="n IN (SELECT id FROM {t})")),
        refused(
            errors.NeedsParent,
            options=(*UPDATABLE, ("where", "n IN (SELECT id FROM {t} WHERE n > 1)")),
        ),
        refused(errors.NotByKey, options=options(where="n IN (SELECT n FROM {t})")),
    ),
    "a condition with any other subquery, or an aggregate": (
        refused(BadCondition, options=options(where="id IN (SELECT 1)")),
        refused(BadCondition, options=options(where="n = (SELECT max(id) FROM {t})")),
        refused(BadCondition, options=options(where="count(*) > 1")),
    ),
    "columns left out of an updatable snapshot": (
        Made(options=(*UPDATABLE, ("columns", ["id", "v"]))),
        refused(
            errors.ColumnsLeftOut,
            table=made_of("v text", "n int NOT NULL"),
            options=(*UPDATABLE, ("columns", ["id", "v"])),
        ),
    ),
    "identity columns, or columns that the condition looks at, left out": (
        refused(errors.IdentityLeftOut, options=options(columns=["v"])),
        refused(errors.SnapshotRefused, options=options(columns=["id"], where="n > 1")),
    ),
    "more than 400 columns in an updatable snapshot, or 1,590 in a read-only one": (
        refused(errors.TooWide, table=MANY, options=UPDATABLE),
        Made(table=MANY),
        Made(table=MOST, options=UPDATABLE),
    ),
    "rows that fill a page with many short values, of which the queue holds two"
    " images": (
        Made(table=made_of(*(f"c{n} text" for n in range(300))), options=UPDATABLE),
        Made(table=made_of(*(f"c{n} name" for n in range(70))), options=UPDATABLE),
    ),
    "virtual generated columns": (
        Made(
            table=made_of("v int", "w int GENERATED ALWAYS AS (v * 2) VIRTUAL"),
            left_out="column w: it is generated when it is read",
            since=18,
        ),
    ),
    "stored generated columns": (
        Made(
            table=made_of("v int", "w int GENERATED ALWAYS AS (v * 2) STORED"),
            options=UPDATABLE,
        ),
        Made(
            table=made_of("v int", "w int GENERATED ALWAYS AS (v * 2) STORED"),
            options=(*UPDATABLE, ("columns", ["id", "w"])),
            left_out="column w: it is generated from data that the site does not have",
        ),
    ),
    "identity columns `GENERATED ALWAYS`": (
        Made(
            table="CREATE TABLE {t} (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)",
            options=UPDATABLE,
        ),
    ),
    "a unique constraint without a nullable, integer, text or uuid column": (
        refused(
            errors.CannotPark,
            table=made_of("v date NOT NULL UNIQUE"),
            options=UPDATABLE,
        ),
        refused(
            errors.CannotPark,
            table=made_of("v date UNIQUE NULLS NOT DISTINCT"),
            options=UPDATABLE,
        ),
    ),
    "partial indexes and indexes over expressions": (
        Made(
            table=TABLE + ";; CREATE INDEX {t}_half ON {t} (v) WHERE n > 1",
            left_out="_half: partial",
        ),
        Made(
            table=TABLE + ";; CREATE INDEX {t}_low ON {t} (lower(v))",
            left_out="_low: partial, or on an expression",
        ),
    ),
    "checks, exclusion constraints and triggers": (
        Made(table=made_of("n int CONSTRAINT {t}_few CHECK (n < 9)"), left_out="_few:"),
    ),
    "foreign keys to tables that the refresh group has not, or has a part of": (
        Made(
            table="CREATE TABLE {t}_up (id int PRIMARY KEY);; "
            + made_of("up int CONSTRAINT {t}_of REFERENCES {t}_up"),
            left_out="has no snapshot of",
        ),
    ),
    "serial, identity and `nextval` defaults of an updatable snapshot": (
        Made(table=made_of("v serial"), options=UPDATABLE),
        Made(
            table=made_of("v int GENERATED BY DEFAULT AS IDENTITY"), options=UPDATABLE
        ),
        Made(
            table="CREATE SEQUENCE {t}_round CYCLE;; "
            + made_of("v int DEFAULT nextval('{t}_round')"),
            options=UPDATABLE,
            left_out="default of v:",
        ),
    ),
    "other defaults that use a sequence or a function of your own": (
        Made(table=made_of("v serial"), left_out="default of v: nextval"),
        Made(
            table="CREATE FUNCTION {t}_one() RETURNS int LANGUAGE sql AS 'SELECT 1';; "
            + made_of("v int DEFAULT {t}_one()"),
            options=UPDATABLE,
            left_out="default of v:",
        ),
    ),
}
