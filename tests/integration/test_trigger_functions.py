"""Who may make triggers that call functions of ours, which run with our rights."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import masters
import snapshots
from sites import Directory, Site
from snaptide import doctor, migrate
from snaptide.embedded import PostgresServer
from tests.fix_sites import log
from tests.granted import PASSWORD, login
from tests.linked_table import link, run

Session = psycopg.Connection[tuple[object, ...]]

#: Functions that every user could have called, by triggers on tables of their own.
_OPEN = (
    "SELECT proname FROM pg_proc WHERE pronamespace = 'snaptide'::regnamespace"
    " AND prosecdef AND prorettype = 'trigger'::regtype"
    " AND has_function_privilege('public', oid, 'EXECUTE')"
)


@pytest.fixture
def someone(sites: Directory, server: PostgresServer) -> Iterator[Session]:
    """A session of a user who may make temporary tables."""
    hq = sites["hq"]
    with login(server, hq) as name:
        run(
            hq,
            f"GRANT USAGE ON SCHEMA snaptide TO {name}",
            f'GRANT TEMPORARY ON DATABASE "{hq.url.database}" TO {name}',
        )
        url = hq.url.set(drivername="postgresql", username=name, password=PASSWORD)
        with psycopg.connect(url.render_as_string(False), autocommit=True) as session:
            yield session


@pytest.mark.parametrize(
    "function", ["mlog$_t", "take_order"], ids=["of a log", "of the queue"]
)
def test_nobody_has_a_function_of_ours_write_for_a_table_of_their_own(
    sites: Directory, someone: Session, function: str
) -> None:
    run(sites["hq"], "CREATE TABLE t (id int PRIMARY KEY)")
    log(sites["hq"], "t")
    someone.execute("CREATE TEMP TABLE mine (xid xid8, order_no bigint, id int)")
    calls = f'EXECUTE FUNCTION snaptide."{function}"()'
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="for function"):
        someone.execute(f"CREATE TRIGGER a AFTER INSERT ON mine {calls}".encode())


@pytest.mark.usefixtures("spark")
def test_no_function_that_triggers_call_is_everybodys(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites)
    run(hq, "CREATE TABLE u (id int PRIMARY KEY)")
    log(hq, "u")
    snapshots.create(jfk, "u", master="hq")
    assert [run(site, _OPEN) for site in (hq, jfk)] == [[], []]


def test_the_owner_of_a_table_attaches_partitions(
    sites: Directory, someone: Session
) -> None:
    """PostgreSQL clones the triggers then, as this user."""
    hq, name = sites["hq"], someone.info.user
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        f"ALTER TABLE public.t OWNER TO {name}",
        f"GRANT CREATE ON SCHEMA public TO {name}",
    )
    log(hq, "t")
    someone.execute(
        "CREATE TABLE public.low PARTITION OF public.t FOR VALUES FROM (0) TO (10)"
    )
    someone.execute("CREATE TABLE public.high (id int PRIMARY KEY)")
    someone.execute(
        "ALTER TABLE public.t ATTACH PARTITION public.high FOR VALUES FROM (10) TO (20)"
    )
    someone.execute("INSERT INTO public.t VALUES (1), (11)")
    assert run(hq, 'SELECT k1 FROM snaptide."mlog$_t" ORDER BY 1') == [(1,), (11,)]


def test_another_owner_attaches_partitions_after_a_repair(
    sites: Directory, someone: Session
) -> None:
    hq, name = sites["hq"], someone.info.user
    run(hq, "CREATE TABLE public.t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    log(hq, "t")
    run(
        hq,
        f"ALTER TABLE public.t OWNER TO {name}",
        f"GRANT CREATE ON SCHEMA public TO {name}",
    )
    create = "CREATE TABLE public.low PARTITION OF public.t FOR VALUES FROM (0) TO (10)"
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="for function"):
        someone.execute(create)
    [finding] = [one for one in doctor.examine(hq) if one.subject == "public.t"]
    assert f"Its owner is {name} now" in finding.what
    assert finding.todo == "snaptide log repair hq public.t"
    masters.repair_snapshot_logs(hq, "t")
    assert [one for one in doctor.examine(hq) if one.subject == "public.t"] == []
    someone.execute(create)
    someone.execute("INSERT INTO public.t VALUES (1)")
    assert run(hq, 'SELECT k1 FROM snaptide."mlog$_t"') == [(1,)]


def test_an_upgrade_takes_the_functions_from_everybody(
    sites: Directory, hq_of_before: Site
) -> None:
    hq = hq_of_before
    assert run(hq, _OPEN) != []
    migrate.upgrade(hq)
    assert run(hq, _OPEN) == []


@pytest.fixture
def hq_of_before(sites: Directory) -> Site:
    """A master with a log, as the revision before has it."""
    hq = sites["hq"]
    run(hq, "CREATE TABLE t (id int PRIMARY KEY)")
    log(hq, "t")
    migrate.downgrade(hq, "0079")
    return hq
