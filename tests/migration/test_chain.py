"""The chain of migrations, and the catalogs that the program declares."""

from sqlalchemy import text

import masters
from sites import Directory, Site
from snaptide import migrate
from tests.fix_db import MakeDatabase
from tests.linked_table import run

# What a schema holds, but for the version that Alembic notes.
_CONTENTS = """
SELECT 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
       a.attnotnull::text, pg_get_expr(d.adbin, d.adrelid)
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'snaptide'::regnamespace AND c.relname NOT LIKE 'alembic%'
UNION ALL
SELECT 'constraint', conname, pg_get_constraintdef(oid), '', '', ''
FROM pg_constraint
WHERE connamespace = 'snaptide'::regnamespace AND conname NOT LIKE 'alembic%'
UNION ALL
SELECT 'function', proname, pg_get_functiondef(oid), '', '', ''
FROM pg_proc WHERE pronamespace = 'snaptide'::regnamespace
UNION ALL
SELECT 'trigger', tgname, pg_get_triggerdef(t.oid), tgenabled::text, '', ''
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'snaptide'::regnamespace AND NOT tgisinternal
UNION ALL
SELECT 'view', viewname, definition, '', '', ''
FROM pg_views WHERE schemaname = 'snaptide'
ORDER BY 1, 2, 3
"""


def test_schema_is_what_the_catalogs_declare(sites: Directory) -> None:
    with sites["hq"].begin() as connection:
        migrate.check(connection)
        assert migrate.current_revision(connection) == migrate.head_revision()


def test_each_step_leads_down_and_up_again(make_database: MakeDatabase) -> None:
    directory = Directory({"hq": make_database()})
    site = directory["hq"]
    seen = []
    for revision in _revisions():
        migrate.upgrade(site, revision)
        seen.append((revision, _contents(site)))
    for (below, contents_below), (above, contents_above) in zip(
        reversed(seen[:-1]), reversed(seen[1:]), strict=True
    ):
        migrate.downgrade(site, below)
        assert _contents(site) == contents_below
        migrate.upgrade(site, above)
        assert _contents(site) == contents_above
        migrate.downgrade(site, below)
    migrate.downgrade(site, "base")
    with site.begin() as connection:
        assert connection.scalar(text("SELECT to_regnamespace('snaptide')")) is None
    directory.close()


def test_logs_of_before_learn_when_rows_were_deleted(sites: Directory) -> None:
    hq = sites["hq"]
    run(hq, "CREATE TABLE t (id int PRIMARY KEY)")
    masters.create_snapshot_log(hq, "t")
    before = _contents(hq)
    migrate.downgrade(hq, "0020")
    run(hq, "INSERT INTO t VALUES (1)")
    migrate.upgrade(hq)
    assert _contents(hq) == before
    run(hq, "DELETE FROM t")
    times = "SELECT at IS NULL FROM snaptide.\"mlog$_t\" ORDER BY kind = 'D'"
    assert run(hq, times) == [(True,), (False,)]


def test_upgrade_twice_changes_nothing(sites: Directory) -> None:
    before = _contents(sites["hq"])
    migrate.upgrade(sites["hq"])
    assert _contents(sites["hq"]) == before


def _revisions() -> list[str]:
    head = int(migrate.head_revision())
    return [f"{number:04}" for number in range(1, head + 1)]


def _contents(site: Site) -> list[tuple[object, ...]]:
    with site.begin() as connection:
        return [tuple(row) for row in connection.execute(text(_CONTENTS))]
