"""The chain of migrations, and the catalogs that the program declares."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import text

import deferred
import masters
import snapshots
from sites import Directory, Site
from sites.errors import NewerSchema, SiteNotInitialised, StillNeeded
from sites.sessions import revisions
from snaptide import migrate
from snaptide.errors import BadArgument
from tests.fix_db import MakeDatabase
from tests.linked_table import link, run

# What a schema holds, but for the version that Alembic notes.
_CONTENTS = """
SELECT 'column', c.relname, a.attname::text, format_type(a.atttypid, a.atttypmod),
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
    with sites["hq"].transaction() as connection:
        migrate.check(connection)
        assert revisions.of_site(connection) == revisions.head()


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


def test_upgrade_twice_changes_nothing(sites: Directory) -> None:
    before = _contents(sites["hq"])
    migrate.upgrade(sites["hq"])
    assert _contents(sites["hq"]) == before


def test_no_step_down_loses_what_waits_or_is_parked(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites)
    link(sites, "others", "id int PRIMARY KEY")
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    run(jfk, "INSERT INTO orders (id) VALUES (1)")
    assert deferred.push(jfk).errors == 1
    masters.drop_snapshot_log(hq, "orders", force=True)
    masters.drop_snapshot_log(hq, "others", force=True)
    with jfk.begin() as connection:
        deferred.call(connection, "notify", [1])
    for site, revision, what in (
        (jfk, "base", "changes that are waiting"),
        (hq, "base", "parked transactions"),
    ):
        run(jfk, "INSERT INTO others SELECT count(*) FROM others")
        before = _contents(site)
        with pytest.raises(migrate.SchemaInUse, match=what):
            migrate.downgrade(site, revision)
        assert _contents(site) == before


def test_what_depends_on_a_step_down_is_named(sites: Directory) -> None:
    jfk = sites["jfk"]
    run(jfk, "CREATE VIEW mine AS SELECT * FROM snaptide.deftran")
    with pytest.raises(StillNeeded, match=r"public\.mine depends on .*deftran"):
        migrate.downgrade(jfk, "base")


def test_views_of_ours_are_no_reason_of_their_own(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE t (id int PRIMARY KEY)")
    masters.create_snapshot_log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    with pytest.raises(migrate.SchemaInUse, match="snapshots"):
        migrate.downgrade(jfk, "base")


def test_revisions_that_there_are_not(make_database: MakeDatabase) -> None:
    site = Directory({"hq": make_database()})["hq"]
    with pytest.raises(SiteNotInitialised):
        migrate.downgrade(site, "base")
    migrate.upgrade(site, "0070")
    for revision in ("9999", "0005", "0072", "+1", ""):
        with pytest.raises(BadArgument, match="0070"):
            migrate.downgrade(site, revision)
    migrate.upgrade(site)
    for unknown, error in (
        ("9999", NewerSchema),
        ("0069", migrate.SchemaBeforeBaseline),
    ):
        number = f"UPDATE snaptide.alembic_version SET version_num = '{unknown}'"
        run(site, number)
        for step in (migrate.upgrade, lambda site: migrate.downgrade(site, "base")):
            with pytest.raises(error, match=unknown):
                step(site)
    site.close()


def test_several_sites_at_once_in_one_process(make_database: MakeDatabase) -> None:
    directory = Directory({name: make_database() for name in ("hq", "jfk", "lga")})
    sites = list(directory.values())
    together = Barrier(len(sites))

    def upgrade(site: Site) -> None:
        together.wait(timeout=90)
        migrate.upgrade(site)

    with ThreadPoolExecutor(len(sites)) as pool:
        list(pool.map(upgrade, sites))
    first, *others = map(_contents, sites)
    assert all(one == first for one in others)
    directory.close()


def _revisions() -> list[str]:
    return sorted(revisions.known())


def _contents(site: Site) -> list[tuple[object, ...]]:
    with site.begin() as connection:
        return [tuple(row) for row in connection.execute(text(_CONTENTS))]
