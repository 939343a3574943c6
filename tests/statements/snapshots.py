"""Statements at a site, through the view of a snapshot, and how they are tried."""

from __future__ import annotations

from sites import Site
from tests.statements import masters
from tests.statements.case import ROWS, TABLE, Case
from tests.stories import user


def at_base(statements: str) -> str:
    """Triggers and rules are made on the base table, and write through it."""
    return statements.removeprefix(";; ").replace("{table}", "{base}")


def copy_into_base(site: Site, table: str) -> None:
    """COPY FROM STDIN into the base table."""
    masters.copy(site, f'"snap$_{table}"')


def as_clerk(site: Site, table: str) -> None:
    """A user who has rights of his own, and policies, on the base table."""
    base = f'"snap$_{table}"'
    with user(site) as session:
        session.execute(f"CREATE ROLE {table}_clerk")
        session.execute(f"GRANT ALL ON {table}, {base} TO {table}_clerk")
        session.execute(f"ALTER TABLE {base} ENABLE ROW LEVEL SECURITY")
        session.execute(f"CREATE POLICY low ON {base} USING (id < 10)")
        session.execute(f"ALTER VIEW {table} SET (security_invoker)")
        session.execute(f"SET LOCAL ROLE {table}_clerk")
        for statement in masters.DML.format(t=table).split(";;"):
            session.execute(statement)
        session.execute("RESET ROLE")
        session.execute(f"REVOKE ALL ON {table}, {base} FROM {table}_clerk")
        session.execute(f"DROP ROLE {table}_clerk")
        session.commit()


_EVERY_TIMING = (
    masters.BEFORE,
    masters.FOR_EACH_ROW,
    masters.FOR_EACH_STATEMENT,
    masters.AT_COMMIT,
)

CASES = {
    "INSERT, UPDATE, DELETE": Case(act=masters.DML),
    "INSERT ... ON CONFLICT": Case(act=masters.UPSERT),
    "MERGE": Case(act=masters.MERGE, since=17),
    "several changes in one WITH": Case(act=masters.WITH),
    "UPDATE that changes nothing": Case(act="UPDATE {t} SET v = v"),
    "UPDATE of the key": Case(
        act="UPDATE {t} SET id = id + 10 WHERE id < 3",
        more=(
            Case(
                act="UPDATE {t} SET id = id + 10", with_rowid=True, columns=("id", "v")
            ),
        ),
    ),
    "UPDATE of the key, of a snapshot without all columns of the master": Case(
        act="UPDATE {t} SET id = 9 WHERE id = 1",
        columns=("id", "v"),
        refused="The key of a row of this snapshot cannot be changed",
    ),
    "any of these on a read-only snapshot": Case(
        act=masters.DML, updatable=False, refused="read-only"
    ),
    "a row outside the snapshot's condition, or moved out of it": Case(
        act="INSERT INTO {t} VALUES (9, 'no', 9)",
        condition="n < 6",
        refused="violates check option",
        more=(
            Case(
                act="UPDATE {t} SET n = 9",
                condition="n < 6",
                refused="violates check option",
            ),
        ),
    ),
    "COPY into the view": Case(act=masters.copy, refused="cannot copy to view"),
    "COPY into the base table": Case(act=copy_into_base),
    "TRUNCATE of the base table": Case(
        act="TRUNCATE {base}", refused="A snapshot cannot be truncated"
    ),
    "PREPARE TRANSACTION of your own": Case(act=masters.prepare_transaction),
    "ON DELETE and ON UPDATE actions between snapshots of a group": Case(
        table=TABLE + masters.CHILD.replace("{put_off}", ""),
        rows=masters.CHILDREN,
        others=("{t}_child",),
        act="DELETE FROM {t} WHERE id = 1;; UPDATE {t} SET id = 22 WHERE id = 2",
    ),
    "changes by triggers of your own on the base table, of every timing": Case(
        prepare=at_base(_EVERY_TIMING[0]),
        act=masters.DML,
        more=tuple(
            Case(prepare=at_base(timing), act=masters.DML)
            for timing in _EVERY_TIMING[1:]
        ),
    ),
    "rules on the base table": Case(prepare=at_base(masters.RULES), act=masters.DML),
    "views over the snapshot, INSTEAD OF triggers": Case(
        prepare=masters.VIEWS.removeprefix(";; ").replace("{table}", "{t}"),
        act=masters.THROUGH_VIEWS,
    ),
    "row-level security on the base table": Case(act=as_clerk),
    "any of these inside a savepoint that is rolled back": Case(act=masters.UNDONE),
    "`session_replication_role = replica`": Case(act=masters.REPLICA, rows=ROWS),
}
