"""Statements at a master, and what is done to try them."""

from __future__ import annotations

from sites import Site
from tests.statements.case import ROWS, TABLE, Case
from tests.stories import user

CHILD = (
    ";; CREATE TABLE {t}_child (id int PRIMARY KEY, {t} int REFERENCES {t}"
    " ON DELETE CASCADE ON UPDATE CASCADE {put_off})"
)
CHILDREN = ROWS + ";; INSERT INTO {t}_child SELECT g, g FROM generate_series(1, 4) g"
PARTITIONED = (
    "CREATE TABLE {t} (id int PRIMARY KEY, v text, n int) PARTITION BY RANGE (id);;"
    " CREATE TABLE {t}_low PARTITION OF {t} FOR VALUES FROM (0) TO (4);;"
    " CREATE TABLE {t}_high PARTITION OF {t} FOR VALUES FROM (4) TO (100)"
)
DML = (
    "INSERT INTO {t} VALUES (6, 'new', 6), (7, 'new', 7);;"
    " UPDATE {t} SET v = 'changed' WHERE id < 3;; DELETE FROM {t} WHERE id = 3"
)
UPSERT = (
    "INSERT INTO {t} VALUES (1, 'again', 1), (8, 'new', 8)"
    " ON CONFLICT (id) DO UPDATE SET v = excluded.v;;"
    " INSERT INTO {t} VALUES (2, 'nothing', 2) ON CONFLICT DO NOTHING"
)
MERGE = (
    "MERGE INTO {t} t USING (VALUES (1, 'one'), (2, NULL), (9, 'nine')) s (id, v)"
    " ON t.id = s.id WHEN MATCHED AND s.v IS NULL THEN DELETE"
    " WHEN MATCHED THEN UPDATE SET v = s.v"
    " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
)
WITH = (
    "WITH gone AS (DELETE FROM {t} WHERE id < 3 RETURNING *),"
    " other AS (UPDATE {t} SET n = 0 WHERE id = 4)"
    " INSERT INTO {t} SELECT id + 10, v, n FROM gone"
)
UNDONE = (
    "SAVEPOINT one;; DELETE FROM {t};; ROLLBACK TO one;;"
    " UPDATE {t} SET v = 'kept' WHERE id = 1"
)
REPLICA = "SET LOCAL session_replication_role = replica;; " + DML

FUNCTION = (
    "CREATE FUNCTION {t}_act() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF pg_trigger_depth() > 1 THEN RETURN COALESCE(NEW, OLD); END IF; {body} END $$"
)
#: The row itself, and others: changed, added, and taken away.
BEFORE = FUNCTION.replace(
    "{body}",
    "UPDATE {table} SET n = n + 1 WHERE id = 5;"
    " INSERT INTO {table} VALUES (100 + (SELECT count(*) FROM {table}), 'mine');"
    " NEW.v = NEW.v || '!'; RETURN NEW;",
) + (
    ";; CREATE TRIGGER act BEFORE INSERT OR UPDATE ON {table}"
    " FOR EACH ROW EXECUTE FUNCTION {t}_act()"
)
AFTER = FUNCTION.replace(
    "{body}",
    "UPDATE {table} SET n = n + 1 WHERE id = 5;"
    " UPDATE {table} SET v = v || '?' WHERE id = 1;"
    " DELETE FROM {table} WHERE id = 4; RETURN NULL;",
)
FOR_EACH_ROW = AFTER + (
    ";; CREATE TRIGGER act AFTER INSERT OR UPDATE ON {table}"
    " FOR EACH ROW EXECUTE FUNCTION {t}_act()"
)
#: Its name sorts before ours: it acts before our trigger sees the statement.
FOR_EACH_STATEMENT = AFTER + (
    ";; CREATE TRIGGER aaa AFTER INSERT OR UPDATE ON {table}"
    " FOR EACH STATEMENT EXECUTE FUNCTION {t}_act();;"
    " CREATE TRIGGER zzz BEFORE DELETE ON {table}"
    " FOR EACH STATEMENT EXECUTE FUNCTION {t}_act()"
)
#: What it does fires it again, and not below itself.
AT_COMMIT = AFTER.replace("pg_trigger_depth() > 1", "NEW.id IN (1, 5)") + (
    ";; CREATE CONSTRAINT TRIGGER act AFTER INSERT OR UPDATE ON {table}"
    " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {t}_act()"
)
RULES = (
    ";; CREATE RULE more AS ON INSERT TO {table}"
    " DO ALSO UPDATE {table} SET n = n + 1 WHERE id = 5;;"
    " CREATE RULE instead AS ON DELETE TO {table}"
    " DO INSTEAD UPDATE {table} SET v = 'deleted' WHERE id = OLD.id"
)
VIEWS = (
    ";; CREATE VIEW {t}_view AS SELECT id, v, n FROM {table} WHERE n < 50;;"
    " CREATE VIEW {t}_instead AS SELECT id * 1 AS id, v, n FROM {table};;"
    " CREATE FUNCTION {t}_instead() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN INSERT INTO {table} VALUES (NEW.id + 30, NEW.v, NEW.n);"
    " RETURN NEW; END $$;;"
    " CREATE TRIGGER instead INSTEAD OF INSERT ON {t}_instead"
    " FOR EACH ROW EXECUTE FUNCTION {t}_instead()"
)
THROUGH_VIEWS = (
    DML.replace("{t}", "{t}_view")
    + ";; INSERT INTO {t}_instead VALUES (1, 'instead', 1)"
)


def copy(site: Site, table: str) -> None:
    """COPY FROM STDIN."""
    with user(site) as session:
        with session.cursor().copy(f"COPY {table} (id, v) FROM STDIN") as rows:
            for number in range(20, 30):
                rows.write_row((number, "copied"))
        session.commit()


def prepare_transaction(site: Site, table: str) -> None:
    """PREPARE TRANSACTION, and COMMIT PREPARED from another session."""
    with user(site) as session:
        session.execute(f"UPDATE {table} SET v = 'prepared'")
        session.execute(f"PREPARE TRANSACTION 'of {table}'")
    with user(site) as session:
        session.autocommit = True
        session.execute(f"COMMIT PREPARED 'of {table}'")


def call_procedure(site: Site, table: str) -> None:
    """CALL of a procedure that commits."""
    with user(site) as session:
        session.autocommit = True
        session.execute(
            f"DO $$ BEGIN UPDATE {table} SET v = 'one'; COMMIT;"
            f" DELETE FROM {table} WHERE id = 1; ROLLBACK;"
            f" DELETE FROM {table} WHERE id = 2; END $$"
        )


def as_clerk(site: Site, table: str) -> None:
    """A user who sees some rows and may write some."""
    with user(site) as session:
        session.execute(f"CREATE ROLE {table}_clerk")
        session.execute(f"GRANT ALL ON {table} TO {table}_clerk")
        session.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        session.execute(f"CREATE POLICY low ON {table} USING (id < 10)")
        session.execute(f"SET LOCAL ROLE {table}_clerk")
        for statement in DML.format(t=table).split(";;"):
            session.execute(statement)
        session.execute("RESET ROLE")
        session.execute(f"REVOKE ALL ON {table} FROM {table}_clerk")
        session.execute(f"DROP ROLE {table}_clerk")
        session.commit()


CASES = {
    "INSERT, UPDATE, DELETE": Case(act=DML),
    "COPY FROM": Case(act=copy),
    "INSERT ... ON CONFLICT": Case(act=UPSERT),
    "MERGE": Case(act=MERGE),
    "several changes in one WITH": Case(act=WITH),
    "UPDATE ... WHERE CURRENT OF": Case(
        act="DECLARE c CURSOR FOR SELECT * FROM {t} FOR UPDATE;; MOVE 2 FROM c;;"
        " UPDATE {t} SET v = 'here' WHERE CURRENT OF c;; FETCH c;;"
        " DELETE FROM {t} WHERE CURRENT OF c"
    ),
    "UPDATE that changes nothing": Case(act="UPDATE {t} SET v = v"),
    "UPDATE of the key": Case(
        act="UPDATE {t} SET id = id + 10 WHERE id < 3",
        more=(Case(act="UPDATE {t} SET id = id + 10", with_rowid=True),),
    ),
    "ON DELETE and ON UPDATE actions of foreign keys": Case(
        table=TABLE + CHILD.replace("{put_off}", ""),
        rows=CHILDREN,
        others=("{t}_child",),
        act="DELETE FROM {t} WHERE id = 1;; UPDATE {t} SET id = 22 WHERE id = 2",
    ),
    "changes by BEFORE triggers of your own, to the row itself or to other rows": Case(
        rows=ROWS + ";; " + BEFORE.replace("{table}", "{t}"), act=DML
    ),
    "changes by AFTER triggers of your own, for each row or statement": Case(
        rows=ROWS + ";; " + FOR_EACH_ROW.replace("{table}", "{t}"),
        act=DML,
        more=(
            Case(
                rows=ROWS + ";; " + FOR_EACH_STATEMENT.replace("{table}", "{t}"),
                act=DML,
            ),
        ),
    ),
    "changes by deferred constraint triggers of your own": Case(
        rows=ROWS + ";; " + AT_COMMIT.replace("{table}", "{t}"), act=DML
    ),
    "deferred foreign keys and unique constraints": Case(
        table=TABLE.replace("n int", "n int UNIQUE DEFERRABLE INITIALLY DEFERRED")
        + CHILD.replace("{put_off}", "DEFERRABLE INITIALLY DEFERRED"),
        rows=CHILDREN,
        others=("{t}_child",),
        act="INSERT INTO {t}_child VALUES (9, 9);; UPDATE {t} SET n = 2 WHERE id = 1;;"
        " UPDATE {t} SET n = 1 WHERE id = 2;; INSERT INTO {t} VALUES (9, 'late', 9)",
    ),
    "rules on the table": Case(
        rows=ROWS + RULES.replace("{table}", "{t}"), act=DML, updatable=False
    ),
    "views over the table, INSTEAD OF triggers": Case(
        rows=ROWS + VIEWS.replace("{table}", "{t}"), act=THROUGH_VIEWS
    ),
    "row-level security for the users who write": Case(act=as_clerk),
    "TRUNCATE": Case(
        act="TRUNCATE {t};; INSERT INTO {t} VALUES (1, 'after', 1)",
        more=(
            Case(
                table=TABLE + CHILD.replace("{put_off}", ""),
                rows=CHILDREN,
                others=("{t}_child",),
                act="TRUNCATE {t} CASCADE",
            ),
        ),
    ),
    "any of these inside a savepoint or transaction that is rolled back": Case(
        act=UNDONE
    ),
    "PREPARE TRANSACTION": Case(act=prepare_transaction),
    "procedures that commit in between": Case(act=call_procedure),
    "`session_replication_role = replica`": Case(act=REPLICA),
    "a row that moves from partition to partition": Case(
        table=PARTITIONED, act="UPDATE {t} SET id = id + 3 WHERE id > 2"
    ),
    "a statement that names a partition or inheritance child directly": Case(
        table=PARTITIONED,
        act="UPDATE {t}_low SET v = 'x';; DELETE FROM {t}_high;; TRUNCATE {t}_low",
        more=(
            Case(
                table=TABLE + ";; CREATE TABLE {t}_child () INHERITS ({t})",
                rows=ROWS + ";; INSERT INTO {t}_child VALUES (10, 'child', 1)",
                act="UPDATE {t}_child SET v = 'x';;"
                " INSERT INTO {t}_child VALUES (11, 'y', 1);; UPDATE {t} SET n = 7",
            ),
        ),
    ),
}
