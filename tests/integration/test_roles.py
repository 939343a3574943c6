"""Every process with no more rights than it needs; nobody is a superuser."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql
from sqlalchemy import URL, create_engine
from sqlalchemy.exc import DBAPIError
from typer.testing import CliRunner

import deferred
import groups
import masters
import snapshots
import synchronous
from masters.errors import PartUnrecorded
from masters.log import arming
from sites import Directory, Site, faults
from sites.errors import NotAMember
from sites.sessions.exchange import raw
from sites.tables import roles
from snapshots.errors import FirstLoadByAnother
from snaptide import doctor, grants, migrate
from snaptide.cli import app
from snaptide.doctor import Severity
from snaptide.embedded import PostgresServer
from snaptide.status import status
from tests.console import Browser, console
from tests.fix_db import MakeDatabase
from tests.fix_secrets import watched
from tests.fix_worker import WriteSettings
from tests.linked_table import run
from tests.stories import assert_equal_to_master, user

pytestmark = pytest.mark.usefixtures("spark")

PASSWORD = "only-for-roles"

#: login -> the roles that it is a member of
LOGINS = {
    "clerk": (),
    "pusher": (roles.PUSH,),
    "refresher": (roles.REFRESH,),
    "teller": (roles.COORDINATE,),
    "second": (roles.COORDINATE,),
    "purger": (roles.PURGE,),
    "caller": (roles.CALL,),
    "looker": (roles.MONITOR,),
}

As = Callable[[str], Directory]


@pytest.fixture
def logins(server: PostgresServer) -> Iterator[dict[str, str]]:
    """Logins without any right, dropped with all they have after the test."""
    watched.remember(PASSWORD)
    names = {one: f"{one}_{secrets.token_hex(4)}" for one in ("owner", *LOGINS)}
    with psycopg.connect(server.url(), autocommit=True) as admin:
        for name in names.values():
            admin.execute(
                sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                    sql.Identifier(name), sql.Literal(PASSWORD)
                )
            )
    yield names
    with psycopg.connect(server.url(), autocommit=True) as admin:
        for name in names.values():
            # What they had in a database went with it.
            admin.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.fixture
def as_login(
    server: PostgresServer, logins: dict[str, str], make_database: MakeDatabase
) -> Iterator[As]:
    """The two sites as a login sees them; their databases belong to `owner`."""
    made: list[Directory] = []
    urls = {name: make_database(name) for name in ("hq", "jfk")}

    def directory(login: str) -> Directory:
        plain = Directory(urls)
        seen: dict[str, str | URL] = {
            name: plain[name].url.set(username=logins[login], password=PASSWORD)
            for name in urls
        }
        made.append(Directory(seen))
        return made[-1]

    with psycopg.connect(server.url(), autocommit=True) as admin:
        for url in urls.values():
            admin.execute(
                sql.SQL("ALTER DATABASE {} OWNER TO {}").format(
                    sql.Identifier(url.rpartition("/")[2].partition("?")[0]),
                    sql.Identifier(logins["owner"]),
                )
            )
        admin.execute(
            sql.SQL("ALTER ROLE {} CREATEROLE").format(sql.Identifier(logins["owner"]))
        )
        _create_roles(admin, logins)
    yield directory
    for one in made:
        one.close()


def _create_roles(
    admin: psycopg.Connection[tuple[Any, ...]], logins: dict[str, str]
) -> None:
    """What the administrator of a cluster does once: roles, and who is in them."""
    ours = ("snaptide_apply", *grants.ROLES)
    for role in ours:
        with suppress(errors.DuplicateObject):
            admin.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        admin.execute(
            sql.SQL("GRANT {} TO {} WITH ADMIN OPTION").format(
                sql.Identifier(role), sql.Identifier(logins["owner"])
            )
        )
    admin.execute(
        sql.SQL("GRANT pg_read_all_stats TO {} WITH ADMIN OPTION").format(
            sql.Identifier(logins["owner"])
        )
    )
    for login, member_of in LOGINS.items():
        for role in member_of:
            admin.execute(
                sql.SQL("GRANT {} TO {}").format(
                    sql.Identifier(role), sql.Identifier(logins[login])
                )
            )


@pytest.fixture
def world(as_login: As, logins: dict[str, str]) -> Directory:
    """A table at hq and its snapshot at jfk, made and filled by their owner."""
    owner = as_login("owner")
    for site in owner.values():
        migrate.upgrade(site)
    hq, jfk = owner["hq"], owner["jfk"]
    run(
        hq,
        "CREATE TABLE orders (id int PRIMARY KEY, qty int NOT NULL, note text UNIQUE)",
        "INSERT INTO orders SELECT i, i, 'n' || i FROM generate_series(1, 5) i",
    )
    masters.create_snapshot_log(hq, "orders")
    snapshots.create(jfk, "orders", master="hq", group="g", updatable=True)
    snapshots.refresh(jfk, "g")
    for site in owner.values():
        run(
            site,
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON orders TO {logins['clerk']}",
        )
        grants.run(site)
    return owner


def write(site: Site, *statements: str) -> None:
    """Write as the login of a site, knowing nothing of Snaptide."""
    with user(site) as session:
        for statement in statements:
            session.execute(statement)
        session.commit()


def test_whole_way_of_a_change(world: Directory, as_login: As) -> None:
    clerk, pusher = as_login("clerk"), as_login("pusher")
    refresher, purger = as_login("refresher"), as_login("purger")
    write(
        clerk["jfk"],
        "UPDATE orders SET qty = 10 WHERE id = 1",
        "INSERT INTO orders VALUES (6, 6, 'new')",
        "DELETE FROM orders WHERE id = 2",
    )
    write(clerk["hq"], "UPDATE orders SET qty = 30 WHERE id = 3")
    assert deferred.push(pusher["jfk"]).transactions == 1
    for method in ("f", "c"):
        snapshots.refresh(refresher["jfk"], "g", method=method, push_deferred_rpc=False)
        assert_equal_to_master(world["jfk"])
    assert run(world["hq"], "SELECT qty FROM orders ORDER BY id") == [
        (10,),
        (30,),
        (4,),
        (5,),
        (6,),
    ]
    now = timedelta(0)
    purged = deferred.purge(purger["jfk"], retention=now)
    assert (purged.transactions, purged.calls) == (1, 3)
    (log,) = masters.purge_snapshot_logs(purger["hq"])
    assert (log.emptied, log.busy) == (1, 0)


def test_a_part_that_the_refresher_does_not_own(world: Directory, as_login: As) -> None:
    run(
        world["hq"],
        "CREATE TABLE late (PRIMARY KEY (id)) INHERITS (orders)",
        f"GRANT SELECT ON late TO {roles.REFRESH}",
    )
    jfk = as_login("refresher")["jfk"]
    with pytest.raises(PartUnrecorded, match="changes of late are recorded") as told:
        snapshots.refresh(jfk, "g", push_deferred_rpc=False)
    run(world["hq"], *told.value.message.partition("run: ")[2].split("; "))
    run(world["hq"], "INSERT INTO late VALUES (7, 7, 'late')")
    snapshots.refresh(jfk, "g", push_deferred_rpc=False)
    assert_equal_to_master(world["jfk"])


def test_new_parts_where_only_a_superuser_may_have_them_recorded_at_once(
    world: Directory, server: PostgresServer
) -> None:
    hq = world["hq"]
    run(hq, "CREATE TABLE late (PRIMARY KEY (id)) INHERITS (orders)")
    assert not masters.show_snapshot_log(hq, "orders").arms_parts
    told = [one.what for one in doctor.examine(hq, informed=True)]
    assert [one for one in told if "by the next refresh, or by snaptide log" in one]
    assert [one.parts for one in masters.repair_snapshot_logs(hq)] == [("late",)]

    with psycopg.connect(server.url(str(hq.url.database))) as admin:
        for statement in arming.statements():
            admin.execute(statement)
    assert masters.show_snapshot_log(hq, "orders").arms_parts
    run(hq, "CREATE TABLE later (PRIMARY KEY (id)) INHERITS (orders)")
    assert [one.parts for one in masters.repair_snapshot_logs(hq)] == [()]

    # The function of the superuser stays that of the superuser until the last log goes.
    with hq.transaction() as connection, pytest.raises(errors.InsufficientPrivilege):
        raw(connection).execute("ALTER FUNCTION snaptide.arm_parts() SECURITY DEFINER")
    migrate.upgrade(hq)
    masters.drop_snapshot_log(hq, "orders", force=True)
    assert run(hq, "SELECT FROM pg_event_trigger") == []


def test_parked_transaction(world: Directory, as_login: As) -> None:
    clerk, pusher = as_login("clerk"), as_login("pusher")
    write(clerk["jfk"], "UPDATE orders SET qty = 10 WHERE id = 1")
    write(clerk["hq"], "UPDATE orders SET qty = 20 WHERE id = 1")
    assert deferred.push(pusher["jfk"]).errors == 1
    (report,) = deferred.retry_errors(pusher["hq"])
    assert not report.applied
    assert deferred.delete_errors(pusher["hq"]) == 1


def test_application_may_not_look_at_ours(world: Directory, as_login: As) -> None:
    clerk = as_login("clerk")
    for name in ("hq", "jfk"):
        for statement in _TRESPASSES[name]:
            with pytest.raises(errors.InsufficientPrivilege):
                write(clerk[name], statement)
    # Nor does it get around being recorded by saying that it is a refresh.
    write(
        clerk["jfk"],
        "SET LOCAL snaptide.origin = 'hq'",
        "UPDATE orders SET qty = 11 WHERE id = 1",
    )
    assert deferred.push(as_login("pusher")["jfk"]).transactions == 1
    for what in (deferred.push, lambda site: snapshots.refresh(site, "g")):
        with pytest.raises(Exception, match=r"permission|snaptide_apply|schema"):
            what(clerk["jfk"])


_TRESPASSES = {
    "hq": (
        "SELECT * FROM snaptide.push_marker",
        "DELETE FROM snaptide.error_transaction",
        'TRUNCATE snaptide."mlog$_orders"',
        "ALTER TABLE orders DISABLE TRIGGER ALL",
        "SET session_replication_role = replica",
        "CREATE FUNCTION snaptide.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    ),
    "jfk": (
        'SELECT * FROM snaptide."def$_orders"',
        "INSERT INTO snaptide.deferred_transaction (xid) VALUES ('1')",
        'UPDATE "snap$_orders" SET qty = 0',
        'ALTER TABLE "snap$_orders" DISABLE TRIGGER ALL',
    ),
}


def test_each_role_may_do_its_own_and_no_more(world: Directory, as_login: As) -> None:
    refused = (
        ("pusher", "jfk", 'UPDATE "snap$_orders" SET qty = 0'),
        ("refresher", "hq", "UPDATE orders SET qty = 0"),
        ("purger", "hq", "UPDATE orders SET qty = 0"),
        ("purger", "jfk", 'SELECT * FROM "snap$_orders"'),
        ("looker", "hq", "SELECT * FROM orders"),
        ("looker", "hq", "DELETE FROM snaptide.error_transaction"),
        ("pusher", "hq", "DROP TABLE snaptide.push_marker"),
        ("refresher", "jfk", 'ALTER TABLE "snap$_orders" DISABLE TRIGGER ALL'),
    )
    for login, site, statement in refused:
        with pytest.raises(errors.InsufficientPrivilege):
            write(as_login(login)[site], statement)
    # Purging and looking are not applying: they are not believed to be.
    with pytest.raises(NotAMember):
        deferred.push(as_login("purger")["jfk"])


def test_calling_procedures(
    world: Directory, as_login: As, logins: dict[str, str]
) -> None:
    """Whoever is not in the role cannot; at hq it runs as the role that pushes."""
    clerk, caller = as_login("clerk")["jfk"], as_login("caller")["jfk"]
    for site in world.values():
        run(
            site,
            "CREATE PROCEDURE restock() LANGUAGE sql AS"
            " 'UPDATE public.orders SET qty = qty + 100'",
            f"GRANT UPDATE, SELECT ON orders TO {logins['caller']}",
        )
    deferred.allow_procedure(world["hq"], "restock")
    with pytest.raises(DBAPIError, match="permission denied"), clerk.begin() as session:
        deferred.call(session, "restock", here=True)
    for forged in ("[1]", "null", '"abc"', '[{"type": "text"}]'):
        statement = f"SELECT snaptide.defer_call('restock', NULL, '{forged}', false)"
        with pytest.raises(errors.InvalidParameterValue):
            write(caller, statement)
    with caller.begin() as session:
        deferred.call(session, "restock", here=True)
        with pytest.raises(DBAPIError, match="permission denied"):
            session.exec_driver_sql("SELECT * FROM snaptide.procedure_call")
        session.rollback()
    with caller.begin() as session:
        deferred.call(session, "restock", here=True)
    assert deferred.push(as_login("pusher")["jfk"]).errors == 0
    for site in world.values():
        assert run(site, "SELECT min(qty) FROM public.orders") == [(101,)]


def test_a_console_that_only_looks(
    world: Directory, as_login: As, tmp_path: Path
) -> None:
    groups.create_group(world["hq"], "sales")
    browser = Browser(console(as_login("looker"), tmp_path))
    pages = ("errors", "conflicts", "rules", "replication-groups", "indoubt")
    for site in ("hq", "jfk"):
        for page in ("", *(f"/{one}" for one in pages)):
            assert "permission denied" not in browser.get(f"/sites/{site}{page}"), page
    assert "sales" in browser.get("/sites/hq/replication-group?name=sales")
    # Rows of users' tables are theirs.
    assert "permission denied" in browser.get("/history?table=orders&key=1")


def test_looking(world: Directory, as_login: As) -> None:
    seen = as_login("looker")
    assert [one.error for one in status(list(seen.values()))] == [None, None]
    for site in seen.values():
        found = [f for f in doctor.examine(site) if f.severity is not Severity.WARNING]
        assert found == []


def test_logs_and_snapshots_to_come(world: Directory, as_login: As) -> None:
    """They are open to the roles at once; run again, `--grants` changes nothing."""
    hq, jfk = world["hq"], world["jfk"]
    run(hq, "CREATE TABLE more (id int PRIMARY KEY)")
    masters.create_snapshot_log(hq, "more")
    snapshots.create(jfk, "more", master="hq", group="h", updatable=True)
    snapshots.refresh(jfk, "h")
    run(jfk, "INSERT INTO more VALUES (1)")
    assert deferred.push(as_login("pusher")["jfk"]).transactions == 1
    snapshots.refresh(as_login("refresher")["jfk"], "h", push_deferred_rpc=False)
    assert_equal_to_master(jfk)
    before = _rights(hq) + _rights(jfk)
    for site in (hq, jfk):
        grants.run(site)
    assert _rights(hq) + _rights(jfk) == before


@pytest.mark.parametrize("kind", ["serial", "int GENERATED ALWAYS AS IDENTITY"])
def test_numbers_are_leased_without_rights_of_an_owner(
    world: Directory, as_login: As, kind: str
) -> None:
    hq, jfk = world["hq"], world["jfk"]
    run(hq, f"CREATE TABLE more (id {kind} PRIMARY KEY, v int)")
    masters.create_snapshot_log(hq, "more")
    snapshots.create(jfk, "more", master="hq", group="h", updatable=True)
    snapshots.refresh(jfk, "h")
    insert = "INSERT INTO more (v) SELECT 1 FROM generate_series(1, 1200)"
    for login in ("pusher", "refresher"):
        run(jfk, "UPDATE snaptide.numbered_column SET size = 300000", insert)
        seen = as_login(login)["jfk"]
        if login == "pusher":
            assert deferred.push(seen).errors == 0
        else:
            snapshots.refresh(seen, "h", push_deferred_rpc=False)
        (column,) = snapshots.list_numbers(as_login("looker")["jfk"])
        assert (column.last_error, (column.left or 0) > 100_000) == (None, True)


def test_first_load_is_the_owners(world: Directory, as_login: As) -> None:
    """Who refreshes is told so, and goes on where the owner has begun."""
    hq, jfk = world["hq"], world["jfk"]
    run(hq, "CREATE TABLE more (id int PRIMARY KEY)", "INSERT INTO more VALUES (1)")
    masters.create_snapshot_log(hq, "more")
    snapshots.create(jfk, "more", master="hq", group="h", updatable=True)
    refresher = as_login("refresher")["jfk"]
    with pytest.raises(FirstLoadByAnother):
        snapshots.refresh(refresher, "h", push_deferred_rpc=False)
    snapshots.refresh(jfk, "h")
    run(hq, "INSERT INTO more VALUES (2)")
    snapshots.refresh(refresher, "h", push_deferred_rpc=False)
    assert_equal_to_master(jfk)


#: What would run code if anybody ran it, and what looks at what is not its own.
CONDITIONS = (
    "public.trap(id) AND random() >= 0",
    "id = 1; SELECT public.trap(1)",
    "id = 1) AND public.trap(id) AND (true",
    "id = (SELECT 1 WHERE public.trap(1))",
    "qty::text = current_setting('is_superuser')",
    "id = any (SELECT pid FROM pg_stat_activity)",
)


def test_hostile_conditions(
    world: Directory, as_login: As, write_settings: WriteSettings
) -> None:
    """Nobody's condition is run before the owner has his snapshot."""
    for site in world.values():
        run(
            site,
            "CREATE TABLE sprung (id int)",
            "CREATE FUNCTION trap(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS"
            " 'BEGIN INSERT INTO public.sprung VALUES (1); RETURN true; END'",
            "GRANT INSERT, SELECT ON sprung TO PUBLIC",
        )
    for login in ("owner", "pusher", "refresher"):
        config = str(write_settings(as_login(login)))
        for condition in CONDITIONS:
            command = ["snapshot", "create", "jfk", "s", "--master", "hq", "--json"]
            what = ["--table", "orders", "--where", condition]
            told = CliRunner().invoke(app, ["--config", config, *command, *what])
            assert told.exit_code == 1, (login, condition, told.output)
            error = json.loads(told.stderr)["error"]
            assert error["code"] in ("SNP-015", "SNP-016", "SNP-406"), error
            assert PASSWORD not in told.output + told.stderr
    for site in world.values():
        assert run(site, "SELECT * FROM sprung") == []


def test_what_a_role_may_not_is_told(
    world: Directory, as_login: As, write_settings: WriteSettings
) -> None:
    """A reason and what to do, for verbs that are the owner's; nothing was done."""
    before = _rights(world["hq"]) + _rights(world["jfk"])
    for login in ("clerk", "pusher", "refresher"):
        config = str(write_settings(as_login(login)))
        for command in OWNERS:
            told = CliRunner().invoke(app, ["--config", config, *command, "--json"])
            error = json.loads(told.stderr)["error"]
            assert (told.exit_code, error["code"]) == (1, "SNP-406"), (login, error)
            assert (
                "permission denied" in error["message"] or "owner" in error["message"]
            )
    assert _rights(world["hq"]) + _rights(world["jfk"]) == before
    snapshots.refresh(as_login("refresher")["jfk"], "g", push_deferred_rpc=False)


OWNERS = (
    ("snapshot", "create", "jfk", "s", "--master", "hq", "--table", "orders"),
    ("snapshot", "drop", "jfk", "orders"),
    ("log", "drop", "hq", "orders", "--force"),
    ("site", "init", "hq"),
)


def _rights(site: Site) -> list[tuple[Any, ...]]:
    return run(
        site,
        "SELECT relname, relacl::text FROM pg_class WHERE relname ~ '(more|orders)$'"
        " ORDER BY 1",
    )


def test_coordinator(world: Directory, as_login: As, logins: dict[str, str]) -> None:
    """Who changes both sides at once needs the role, and the view as anybody."""
    snapshots.alter_propagation(world["jfk"], "g", synchronous=True)
    run(world["jfk"], f"GRANT SELECT, UPDATE, INSERT ON orders TO {logins['teller']}")
    teller = as_login("teller")
    with synchronous.begin(teller["jfk"]) as connection:
        connection.exec_driver_sql("UPDATE public.orders SET qty = 7 WHERE id < 3")
    with synchronous.begin(teller["jfk"]) as connection:
        connection.exec_driver_sql(
            "INSERT INTO public.orders"
            " SELECT i, 0, 'x' || i FROM generate_series(100, 300) i"
        )
    for site in world.values():
        assert run(site, "SELECT count(*), sum(qty) FROM orders") == [(206, 26)]
    _other_coordinator(world, as_login, logins)
    assert synchronous.recover(teller["jfk"]).left == 0
    with pytest.raises(errors.InsufficientPrivilege):
        write(teller["jfk"], 'UPDATE "snap$_orders" SET qty = 0')


def _other_coordinator(world: Directory, as_login: As, logins: dict[str, str]) -> None:
    """It uses the work table of the first; who may not drop it purges all the same."""
    run(world["jfk"], f"GRANT SELECT, UPDATE ON orders TO {logins['second']}")
    with synchronous.begin(as_login("second")["jfk"]) as connection:
        connection.exec_driver_sql(
            "UPDATE public.orders SET qty = qty + 0 WHERE id < 3"
        )
    deferred.purge(as_login("purger")["hq"])


def test_an_engine_of_a_coordinators_own(
    world: Directory, as_login: As, logins: dict[str, str]
) -> None:
    snapshots.alter_propagation(world["jfk"], "g", synchronous=True)
    run(world["jfk"], f"GRANT SELECT, UPDATE ON orders TO {logins['teller']}")
    jfk = as_login("teller")["jfk"]
    engine = create_engine(jfk.url.set(drivername="postgresql+psycopg"))
    synchronous.coordinate(engine, jfk)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE public.orders SET qty = 70 WHERE id < 3")
    engine.dispose()
    assert rows_of(world["hq"]) == rows_of(world["jfk"])
    clerk = as_login("clerk")["jfk"]
    engine = create_engine(clerk.url.set(drivername="postgresql+psycopg"))
    with pytest.raises(DBAPIError, match="permission denied"):
        synchronous.coordinate(engine, clerk)
    engine.dispose()


def test_recovery_goes_on_past_what_only_another_login_may_end(
    world: Directory,
    as_login: As,
    logins: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PostgreSQL lets a prepared transaction be ended by who made it alone."""
    snapshots.alter_propagation(world["jfk"], "g", synchronous=True)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", _stop_after_decision)
        for number, name in enumerate(("teller", "second"), 1):
            run(world["jfk"], f"GRANT SELECT, UPDATE ON orders TO {logins[name]}")
            with (
                pytest.raises(_Gone),
                synchronous.begin(as_login(name)["jfk"]) as connection,
            ):
                connection.exec_driver_sql(
                    f"UPDATE public.orders SET qty = 70 WHERE id = {number}"
                )

    report = synchronous.recover(as_login("second")["hq"])
    assert (report.committed, report.left) == (1, 1)
    assert synchronous.recover(as_login("teller")["hq"]).committed == 1
    assert rows_of(world["hq"]) == rows_of(world["jfk"])


class _Gone(BaseException):
    """Ends a coordinator without a word to anyone."""


def _stop_after_decision(point: str) -> None:
    if point == "synchronous.after_decision":
        raise _Gone


def rows_of(site: Site) -> list[tuple[Any, ...]]:
    return run(site, "SELECT * FROM orders ORDER BY id")


def test_command_prints_what_it_would_run(
    world: Directory, write_settings: WriteSettings
) -> None:
    config = str(write_settings(world))
    command = ["--config", config, "site", "init", "hq", "--grants", "print"]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    with world["hq"].session() as connection:
        wanted = grants.statements(connection)
    assert [f"{one};" for one in wanted] == told.stdout.splitlines()[-len(wanted) :]
    ran = CliRunner().invoke(app, [*command[:-1], "run", "--json"])
    assert json.loads(ran.stdout)[0]["grants"] == wanted
