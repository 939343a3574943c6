"""Definitions that are altered under a log or snapshot, and how they are tried."""

from __future__ import annotations

from tests.statements.case import ROWS, TABLE, Case
from tests.statements.masters import CHILD, PARTITIONED

LATER = "INSERT INTO {t} VALUES (6, 'later', 6);; UPDATE {t} SET v = 'x' WHERE id = 1"
TYPES = (
    "CREATE TYPE {t}_mood AS ENUM ('a', 'b');;"
    " CREATE TABLE {t} (id int PRIMARY KEY, m {t}_mood)"
)

#: Captured: the snapshots are refreshed, and equal their masters.
CASES = {
    "ALTER TABLE ... ADD COLUMN at the master": Case(
        act="ALTER TABLE {t} ADD more text DEFAULT 'x';;"
        " UPDATE {t} SET v = 'altered', more = 'y' WHERE id = 1"
    ),
    "a key column of a larger type (int to bigint, varchar(5) to varchar(50) or"
    " text)": Case(
        table="CREATE TABLE {t} (id int, v varchar(5), n int, PRIMARY KEY (id, v))",
        act="ALTER TABLE {t} ALTER id TYPE bigint, ALTER v TYPE varchar(50);;"
        " DELETE FROM {t} WHERE id = 1;; UPDATE {t} SET n = 0 WHERE id = 2",
    ),
    "CREATE of a partition after the log": Case(
        table=PARTITIONED,
        act="CREATE TABLE {t}_new PARTITION OF {t} DEFAULT;;"
        " INSERT INTO {t} VALUES (100, 'by the parent', 1);;"
        " INSERT INTO {t}_new VALUES (101, 'directly', 1)",
    ),
    "ATTACH of a partition, INHERIT of a child": Case(
        table=PARTITIONED,
        act="CREATE TABLE {t}_new (LIKE {t});;"
        " INSERT INTO {t}_new VALUES (101, 'before', 1);;"
        " ALTER TABLE {t} ATTACH PARTITION {t}_new DEFAULT",
        more=(
            Case(
                act="CREATE TABLE {t}_new (LIKE {t});;"
                " INSERT INTO {t}_new VALUES (101, 'before', 1);;"
                " ALTER TABLE {t}_new INHERIT {t}"
            ),
        ),
    ),
    "DETACH or DROP of a partition, NO INHERIT of a child": Case(
        table=PARTITIONED,
        act="ALTER TABLE {t} DETACH PARTITION {t}_low",
        more=(
            Case(
                table=PARTITIONED,
                act="ALTER TABLE {t} DETACH PARTITION {t}_low;;"
                " DROP TRIGGER snaptide_mlog_update ON {t}_low;;"
                " UPDATE {t}_low SET v = 'away';;"
                " ALTER TABLE {t} ATTACH PARTITION {t}_low FOR VALUES FROM (0) TO (4)",
            ),
            Case(table=PARTITIONED, act="DROP TABLE {t}_high"),
            Case(
                table=TABLE + ";; CREATE TABLE {t}_child () INHERITS ({t})",
                rows=ROWS + ";; INSERT INTO {t}_child VALUES (10, 'child', 1)",
                act="ALTER TABLE {t}_child NO INHERIT {t}",
            ),
        ),
    ),
    "DDL that changes values: ALTER TYPE ... USING, a column dropped and added again,"
    " names swapped": Case(
        act="ALTER TABLE {t} ALTER v TYPE text USING upper(v), ALTER n TYPE bigint",
        more=(
            Case(act="ALTER TABLE {t} DROP n;; ALTER TABLE {t} ADD n int DEFAULT 7"),
            Case(
                act="ALTER TABLE {t} DROP id;;"
                " ALTER TABLE {t} ADD id serial PRIMARY KEY",
                rows="INSERT INTO {t} VALUES (3, 'v', 3), (9, 'v', 9)",
            ),
            Case(
                table="CREATE TABLE {t} (id int PRIMARY KEY, v text, n text)",
                act="ALTER TABLE {t} RENAME v TO x;; ALTER TABLE {t} RENAME n TO v;;"
                " ALTER TABLE {t} RENAME x TO n;; UPDATE {t} SET v = 'x' WHERE id = 1",
            ),
        ),
    ),
    "CLUSTER, VACUUM FULL, SET TABLESPACE, which change nothing": Case(
        act="CLUSTER {t} USING {t}_pkey"
    ),
    "any other DDL": Case(
        table=TABLE + CHILD.replace("{put_off}", ""),
        others=("{t}_child",),
        act="CREATE INDEX ON {t} (v);; ALTER TABLE {t} ADD CHECK (id > 0),"
        " ADD UNIQUE (n), ALTER v SET DEFAULT 'x';;"
        " ALTER TABLE {t}_child DROP CONSTRAINT {t}_child_{t}_fkey;;"
        f" {LATER};; INSERT INTO {{t}}_child VALUES (1, 2)",
    ),
}

#: Found by doctor at the master; users go on writing.
AT_MASTER = {
    "a key column dropped, renamed, or of a type of another kind": (
        Case(act="ALTER TABLE {t} RENAME id TO z;; UPDATE {t} SET v = 'x'"),
        Case(act="ALTER TABLE {t} DROP id;; INSERT INTO {t} (v) VALUES ('x')"),
        Case(act="ALTER TABLE {t} ALTER id TYPE text;; DELETE FROM {t}"),
    ),
    "the primary key dropped, or over more columns": (
        Case(act=f"ALTER TABLE {{t}} DROP CONSTRAINT {{t}}_pkey;; {LATER}"),
    ),
    "CREATE of a partition after the log": (
        Case(
            table=PARTITIONED,
            act="ALTER EVENT TRIGGER snaptide_arm_parts DISABLE;;"
            " CREATE TABLE {t}_new PARTITION OF {t} DEFAULT;;"
            " ALTER EVENT TRIGGER snaptide_arm_parts ENABLE ALWAYS",
        ),
    ),
    "DROP TABLE of a master table": (Case(act="DROP TABLE {t}"),),
    "RENAME or SET SCHEMA of a master table": (
        Case(act="ALTER TABLE {t} RENAME TO {t}_x;; DELETE FROM {t}_x"),
        Case(act="CREATE SCHEMA {t}_s;; ALTER TABLE {t} SET SCHEMA {t}_s"),
    ),
    "ATTACH of a master table to another, INHERIT from another": (
        Case(
            table=TABLE + ";; CREATE TABLE {t}_above (LIKE {t})",
            act="ALTER TABLE {t} INHERIT {t}_above",
        ),
        Case(
            table=TABLE + ";; CREATE TABLE {t}_above (LIKE {t}) PARTITION BY HASH (id)",
            act="ALTER TABLE {t}_above ATTACH PARTITION {t}"
            " FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
        ),
    ),
    "SET UNLOGGED": (Case(act="ALTER TABLE {t} SET UNLOGGED"),),
    "a trigger of Snaptide's disabled or dropped": (
        Case(act="ALTER TABLE {t} DISABLE TRIGGER snaptide_mlog_update"),
        Case(act="DROP TRIGGER snaptide_mlog_truncate ON {t}"),
    ),
}

#: Found by doctor at the site, for what is done at the master or there.
AT_SITE = {
    "DROP or RENAME of a column at the master": (
        Case(act="ALTER TABLE {t} DROP v;; INSERT INTO {t} (id) VALUES (9)"),
        Case(act="ALTER TABLE {t} RENAME v TO w;; UPDATE {t} SET w = 'x'"),
    ),
    "SET EXPRESSION of a generated column that sites compute": (
        Case(
            table="CREATE TABLE {t} (id int PRIMARY KEY,"
            " g int GENERATED ALWAYS AS (id * 2) STORED)",
            rows="INSERT INTO {t} VALUES (1)",
            act="ALTER TABLE {t} ALTER g SET EXPRESSION AS (id * 3)",
            since=17,
        ),
    ),
    "an enum, domain or composite altered at one side": (
        Case(table=TYPES, rows="", act="ALTER TYPE {t}_mood ADD VALUE 'c'"),
    ),
    "RENAME of a column of a snapshot's base table": (
        Case(act="", prepare="ALTER TABLE {base} RENAME v TO w"),
    ),
    "RENAME or SET SCHEMA of a snapshot's base table": (
        Case(act="", prepare="ALTER TABLE {base} RENAME TO {t}_x"),
        Case(
            act="", prepare="CREATE SCHEMA {t}_s;; ALTER TABLE {base} SET SCHEMA {t}_s"
        ),
    ),
    "DROP of a column of a snapshot's base table": (
        Case(act="", prepare="ALTER TABLE {base} DROP v CASCADE"),
    ),
    "DROP EXPRESSION of a column of a snapshot's base table": (
        Case(
            table="CREATE TABLE {t} (id int PRIMARY KEY,"
            " g int GENERATED ALWAYS AS (id * 2) STORED)",
            rows="INSERT INTO {t} VALUES (1)",
            act="",
            prepare="ALTER TABLE {base} ALTER g DROP EXPRESSION",
        ),
    ),
    "SET UNLOGGED of a snapshot's base table": (
        Case(act="", prepare="ALTER TABLE {base} SET UNLOGGED"),
    ),
}
