"""Numbers of a site's own: leased from the master's sequence, drawn offline."""

import psycopg
import pytest
from sqlalchemy import orm
from sqlalchemy.exc import DBAPIError

import deferred
import masters
import snapshots
from masters.errors import CannotLease
from masters.numbers import columns
from sites import Directory, Site, configured
from sites.configured import Configuration
from snapshots.definitions.errors import (
    NoSuchNumbers,
    NumbersRefused,
    TooManyNumbers,
    UnknownColumn,
)
from snaptide import doctor
from snaptide.status import status_of
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import application, run

REACHED = "Run, while the master can be reached"
ORDERS = """
CREATE TABLE public.orders (id {type} PRIMARY KEY, customer text, qty int DEFAULT 1)
"""


@prepared_once("hq", "jfk")
def plain(sites: Directory) -> None:
    """A table with a number that the master draws, and a snapshot of it, refreshed."""
    _with_orders(sites, "serial")


@prepared_once("hq", "jfk")
def identity(sites: Directory) -> None:
    """The same with a column that is always generated."""
    _with_orders(sites, "bigint GENERATED ALWAYS AS IDENTITY")


@pytest.fixture(params=["plain", "identity"])
def orders(request: pytest.FixtureRequest) -> Directory:
    made: Directory = request.getfixturevalue(request.param)
    return made


def _with_orders(sites: Directory, kind: str) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, ORDERS.format(type=kind))
    run(hq, "INSERT INTO orders (customer) SELECT 'hq' FROM generate_series(1, 10)")
    log(hq, "orders")
    snapshots.create(jfk, "orders", master="hq", updatable=True)
    snapshots.refresh(jfk, "orders")


def test_inserts_without_a_number_get_one(orders):
    hq, jfk = orders["hq"], orders["jfk"]
    made = [
        row[0]
        for rows in (
            "(customer) VALUES ('a')",
            "VALUES (DEFAULT, 'b'), (DEFAULT, 'c')",
            "(customer) SELECT 'd' FROM generate_series(1, 5)",
        )
        for row in run(jfk, f"INSERT INTO orders {rows} RETURNING id")
    ]
    assert made == [*range(11, 19)]
    run(hq, "INSERT INTO orders (customer) VALUES ('hq')")
    assert deferred.push(jfk).errors == 0
    snapshots.refresh(jfk, "orders")
    assert run(hq, "SELECT max(id), count(*) FROM orders") == [(2011, 19)]
    assert run(jfk, "SELECT max(id), count(*) FROM orders") == [(2011, 19)]


def test_copy_and_a_role_with_no_rights_but_insert(plain):
    jfk = plain["jfk"]
    with jfk.begin() as connection:
        connection.exec_driver_sql("CREATE ROLE clerk_of_numbers")
        connection.exec_driver_sql("GRANT INSERT, SELECT ON orders TO clerk_of_numbers")
        connection.exec_driver_sql("SET LOCAL ROLE clerk_of_numbers")
        made = connection.exec_driver_sql(
            "INSERT INTO orders (customer) VALUES ('a') RETURNING id"
        )
        assert made.scalar() == 11
        connection.exec_driver_sql("RESET ROLE")
        with connection.connection.cursor().copy(
            'COPY "snap$_orders" (customer) FROM STDIN'
        ) as copy:
            copy.write(b"b\nc\n")
        found = connection.exec_driver_sql("SELECT id FROM orders WHERE id > 10")
        assert found.scalars().all() == [11, 12, 13]
        connection.exec_driver_sql("REVOKE ALL ON orders FROM clerk_of_numbers")
        connection.exec_driver_sql("DROP ROLE clerk_of_numbers")


def test_a_refill_before_the_reserve_is_opened_if_that_is_too_small(plain):
    """A site that uses a thousand a day may be away for 30 days."""
    hq, jfk = plain["hq"], plain["jfk"]
    run(jfk, "INSERT INTO orders (customer) SELECT 'x' FROM generate_series(1, 1000)")
    deferred.push(jfk)
    assert _leased(hq)[-1] == (102_011, 10 + 1000 + 2 * 60_000)


def test_a_busy_site_leases_in_large_steps(plain, monkeypatch):
    """However many it uses: not what it has drawn since the last contact, each time."""
    hq, jfk = plain["hq"], plain["jfk"]
    monkeypatch.setattr(columns, "MOST", 1_000)
    run(jfk, "INSERT INTO orders (customer) SELECT 'x' FROM generate_series(1, 1001)")
    deferred.push(jfk)
    leases = len(_leased(hq))
    for _ in range(3):
        run(jfk, "INSERT INTO orders (customer) VALUES ('y')")
        deferred.push(jfk)
    assert len(_leased(hq)) == leases


def test_two_leases_and_a_refill_when_the_reserve_is_opened(plain, monkeypatch):
    hq, jfk = plain["hq"], plain["jfk"]
    away = Configuration(directory=plain, days_away=0.5)
    monkeypatch.setattr(configured, "_current", away)
    assert _leased(hq) == [(11, 2010)]
    run(jfk, "INSERT INTO orders (customer) SELECT 'x' FROM generate_series(1, 1000)")
    deferred.push(jfk)
    assert _leased(hq) == [(11, 2010)]
    run(jfk, "INSERT INTO orders (customer) VALUES ('x')")
    run(hq, "INSERT INTO orders (customer) VALUES ('hq')")
    deferred.push(jfk)
    run(jfk, "INSERT INTO orders (customer) SELECT 'y' FROM generate_series(1, 1000)")
    got = {row[0] for row in run(jfk, "SELECT id FROM orders WHERE id > 10")}
    assert got == {*range(11, 2011), 2012}
    assert deferred.push(jfk).errors == 0


def test_lease_does_not_wait_for_an_open_transaction_that_drew_numbers(plain):
    hq, jfk = plain["hq"], plain["jfk"]
    draw = "SELECT nextval('orders_id_seq')"
    with application(hq) as session:
        mine = session.execute(draw).fetchone()
        left = snapshots.lease_numbers(jfk, "orders.id", numbers=60_000).left
        after = session.execute(draw).fetchone()
    assert (mine, left, after) == ((2011,), 62_000, (62_012,))


def test_two_columns_and_a_sequence_that_they_share(sites):
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id serial PRIMARY KEY, a int"
        " DEFAULT nextval('public.t_id_seq'), b bigserial)",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    snapshots.refresh(jfk, "t")
    run(jfk, "INSERT INTO t SELECT FROM generate_series(1, 1500)")
    assert deferred.push(jfk).errors == 0
    run(jfk, "INSERT INTO t SELECT FROM generate_series(1, 1500)")
    run(hq, "INSERT INTO t SELECT FROM generate_series(1, 100)")
    assert deferred.push(jfk).errors == 0
    distinct = "SELECT count(DISTINCT n) FROM t, unnest(ARRAY[id, a]) n"
    assert run(hq, distinct) == [(6200,)]
    assert run(hq, "SELECT count(DISTINCT b) FROM t") == [(3100,)]


def test_used_up(plain):
    hq, jfk = plain["hq"], plain["jfk"]
    with jfk.begin() as connection:
        notices: list[tuple[str | None, ...]] = []
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        driver.add_notice_handler(
            lambda n: notices.append((n.severity, n.message_hint))
        )
        connection.exec_driver_sql(
            "INSERT INTO orders (customer) SELECT 'x' FROM generate_series(1, 2000)"
        )
    assert [(one, str(hint).split(" --")[0]) for one, hint in notices] == [
        ("WARNING", f"{REACHED}: snaptide numbers lease jfk orders.id")
    ]
    for _ in range(5):
        refused = _refused(jfk, "INSERT INTO orders (customer) VALUES ('x')")
        assert refused.sqlstate == "2200H"
        assert "orders.id" in str(refused)
        assert "numbers lease jfk orders.id" in str(refused.diag.message_hint)
    run(jfk, "INSERT INTO orders VALUES (5001, 'mine')")
    deferred.push(jfk)
    assert run(jfk, "INSERT INTO orders (customer) VALUES ('x') RETURNING id") == [
        (2011,)
    ]
    # So many in a day, twice for 30 days, and as many in reserve.
    assert _leased(hq)[1][0] == 2011
    assert _leased(hq)[-1][1] == 2010 + 4 * 2000 * 30


def test_what_cannot_be_leased_is_said(sites):
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE SEQUENCE public.round CYCLE")
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY DEFAULT nextval('round'), u uuid,"
        " n int)",
    )
    log(hq, "t")

    def made(**given):
        return snapshots.create(jfk, "t", master="hq", updatable=True, **given)

    with pytest.raises(CannotLease, match="CYCLE"):
        made(numbers={"id": "lease"})
    with pytest.raises(CannotLease, match="draws no numbers"):
        made(numbers={"n": "lease"})
    with pytest.raises(UnknownColumn, match="'no'"):
        made(numbers={"no": "lease"})
    with pytest.raises(NumbersRefused, match="not uuid"):
        made(numbers={"n": "uuidv7"})
    with pytest.raises(NumbersRefused, match=r"Column n: snowflake is refused.*lease"):
        made(numbers={"n": "snowflake"})
    with pytest.raises(NumbersRefused, match=r"'ulid' is no way.*lease, uuidv7, none"):
        made(numbers={"n": "ulid"})
    with pytest.raises(NumbersRefused, match="read-only"):
        snapshots.create(jfk, "t", master="hq", numbers={"u": "uuidv7"})
    report = made(numbers={"u": "uuidv7"})
    assert report.numbers == {"u": "uuidv7"}
    assert any("CYCLE" in one and "default of id" in one for one in report.left_out)
    snapshots.refresh(jfk, "t")
    run(jfk, "INSERT INTO t (id) SELECT g FROM generate_series(1, 3) g")
    versions = "SELECT DISTINCT substr(u::text, 15, 1) FROM t"
    assert run(jfk, versions) == [("7",)]


def test_numbers_are_not_wanted(sites):
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, ORDERS.format(type="serial"))
    log(hq, "orders")
    made = snapshots.create(
        jfk, "orders", master="hq", updatable=True, numbers={"id": "none"}
    )
    assert made.numbers == {}
    assert any("default of id" in one for one in made.left_out)
    snapshots.refresh(jfk, "orders")
    assert _leased(hq) == []
    assert (
        _refused(jfk, "INSERT INTO orders (customer) VALUES ('x')").sqlstate == "23502"
    )


@pytest.mark.parametrize(
    ("sequence", "drawn"),
    [
        ("INCREMENT BY 5 START 3", [3, 8, 13]),
        ("INCREMENT BY -1 MINVALUE -100000", [-1, -2, -3]),
        ("CACHE 20", [1, 2, 3]),
        ("AS smallint", [1, 2, 3]),
    ],
)
def test_sequences_of_all_kinds(sites, sequence, drawn):
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE SEQUENCE public.s {sequence}")
    run(hq, "CREATE TABLE public.t (id bigint PRIMARY KEY DEFAULT nextval('s'), v int)")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    snapshots.refresh(jfk, "t")
    insert = "INSERT INTO t (v) SELECT 1 FROM generate_series(1, {}) RETURNING id"
    assert [row[0] for row in run(jfk, insert.format(3))] == drawn
    at_hq = {row[0] for row in run(hq, insert.format(500))}
    run(jfk, insert.format(100))
    for _ in range(3):
        deferred.push(jfk)
        run(jfk, insert.format(300))
        at_hq |= {row[0] for row in run(hq, insert.format(100))}
    here = {row[0] for row in run(jfk, "SELECT id FROM t")}
    assert len(here) == 1003
    assert not here & at_hq


def test_a_column_that_runs_out_of_numbers(sites):
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE public.t (id smallserial PRIMARY KEY, v int)")
    run(hq, "SELECT setval('t_id_seq', 32766)")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    snapshots.refresh(jfk, "t")
    assert run(jfk, "INSERT INTO t (v) VALUES (1) RETURNING id") == [(32767,)]
    report = deferred.push(jfk)
    assert report.errors == 0
    noted = "SELECT last_error FROM snaptide.numbered_column"
    assert "SNP-141" in run(jfk, noted)[0][0]
    refused = _refused(jfk, "INSERT INTO t (v) VALUES (1)")
    assert "SNP-141" in str(refused.diag.message_detail)


def test_leased_and_returned_by_hand(plain):
    hq, jfk = plain["hq"], plain["jfk"]
    assert snapshots.list_numbers(jfk)[0].left == 2000
    before = snapshots.lease_numbers(jfk, "orders.id", numbers=120_000)
    assert before.left == 122_000
    run(jfk, "INSERT INTO orders (customer) SELECT 'x' FROM generate_series(1, 5000)")
    assert snapshots.return_numbers(jfk, "public.orders.id").left == 0
    (lease,) = masters.list_leases(hq)
    assert (lease.numbers, lease.returned) == (122_000, 117_000)
    assert deferred.push(jfk).errors == 0
    assert run(jfk, "INSERT INTO orders (customer) VALUES ('x') RETURNING id") == [
        (122_011,)
    ]
    for wrong in ("orders", "orders.customer", "orders.no"):
        with pytest.raises(NoSuchNumbers):
            snapshots.lease_numbers(jfk, wrong)
    for many in (0, 100_000_001):
        with pytest.raises(TooManyNumbers, match="1 to 100,000,000"):
            snapshots.lease_numbers(jfk, "orders.id", numbers=many)


def test_columns_are_numbered_otherwise(plain):
    hq, jfk = plain["hq"], plain["jfk"]
    run(jfk, "CREATE VIEW public.mine AS SELECT * FROM orders")
    assert snapshots.alter_numbers(jfk, "orders", {"id": "none"}) == []
    insert = "INSERT INTO orders (customer) VALUES ('x') RETURNING id"
    assert _refused(jfk, insert).sqlstate == "23502"
    with pytest.raises(CannotLease):
        snapshots.alter_numbers(jfk, "orders", {"qty": "lease"})
    with pytest.raises(UnknownColumn):
        snapshots.alter_numbers(jfk, "orders", {"nope": "none"})
    assert snapshots.alter_numbers(jfk, "orders", {"id": "lease"})[0].left == 2000
    assert run(jfk, insert) == [(2011,)]
    snapshots.alter_numbers(jfk, "orders", {"qty": "none", "id": "lease"})
    assert run(jfk, insert.replace("RETURNING id", "RETURNING id, qty")) == [(2012, 1)]
    run(jfk, "DROP VIEW public.mine")
    snapshots.drop(jfk, "orders", force=True)
    tickets = (
        "SELECT relname FROM pg_class WHERE relname LIKE 'numbers%' AND relkind = 'S'"
    )
    assert run(jfk, tickets) == []
    assert _leased(hq) == [(11, 2010), (2011, 4010)]


def _leased(site: Site) -> list[tuple[object, ...]]:
    return run(site, "SELECT first, last FROM snaptide.number_lease ORDER BY first")


def _refused(site: Site, statement: str) -> psycopg.Error:
    with site.connect() as connection, pytest.raises(DBAPIError) as refused:
        connection.exec_driver_sql(statement)
    assert isinstance(refused.value.orig, psycopg.Error)
    return refused.value.orig


def test_commands(plain, write_settings):
    snaptide = Snaptide(write_settings(plain))
    hq, jfk = snaptide.report("numbers", "list")
    assert [one["column"] for one in jfk["draws"]] == ["id"]
    assert [(one["site"], one["numbers"]) for one in hq["leased"]] == [("jfk", 2000)]
    leased = snaptide.report("numbers", "lease", "jfk", "orders.id", "--numbers", "500")
    assert leased["left"] == 2500
    assert snaptide.report("numbers", "return", "jfk", "orders.id")["left"] == 0
    altered = snaptide.report(
        "snapshot", "alter", "jfk", "orders", "--numbers", "id=none"
    )
    assert altered == []
    for arguments in (
        ["numbers", "list", "jfk", "hq"],
        ["snapshot", "alter", "jfk", "orders", "--numbers", "id=lease"],
    ):
        assert "lease" in snaptide.said(*arguments)
    wrong = ["snapshot", "alter", "jfk", "orders", "--numbers", "id"]
    assert "COLUMN=WAY" in snaptide.said(*wrong, code=2)


def test_what_programs_ask_for_after_an_insert(plain):
    jfk = plain["jfk"]

    class Base(orm.DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = "orders"
        id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
        customer: orm.Mapped[str]

    with jfk.begin() as connection, orm.Session(connection) as session:
        made = [Order(customer=f"c{n}") for n in range(1500)]
        session.add_all(made)
        session.flush()
        given = {one.customer: one.id for one in made}
        session.commit()
    assert dict(run(jfk, "SELECT customer, id FROM orders WHERE id > 10")) == given
    insert = "INSERT INTO orders (customer) VALUES ('x') RETURNING id, lastval()"
    ((number, last),) = run(jfk, insert)
    assert number != last
    assert run(jfk, "SELECT pg_get_serial_sequence('orders', 'id')") == [(None,)]
    for asked in ("currval", "nextval"):
        assert _refused(jfk, f"SELECT {asked}('orders_id_seq')").sqlstate == "42P01"


def test_status_and_doctor(plain):
    hq, jfk = plain["hq"], plain["jfk"]

    def found(site: Site, subject: str = "orders.id") -> list[str]:
        return [one.what for one in doctor.examine(site) if one.subject == subject]

    assert found(jfk) == found(hq) == []
    (column,) = status_of(jfk).numbers
    assert (column.left, column.lease, column.per_day) == (2000, 1000, 0)
    run(jfk, "INSERT INTO orders (customer) SELECT 'x' FROM generate_series(1, 400)")
    assert status_of(jfk).numbers[0].lasts_days == 4
    assert "1,600 numbers are left, and 400 a day" in found(jfk)[0]
    run(jfk, "INSERT INTO orders (customer) SELECT 'x' FROM generate_series(1, 1600)")
    assert "No numbers are left" in found(jfk)[0]
    # As people do after they have loaded rows.
    run(hq, "SELECT setval('orders_id_seq', 500)")
    (behind,) = (one for one in doctor.examine(hq) if one.subject == "orders.id")
    assert "sites have numbers up to 2010" in behind.what
    run(hq, behind.todo.partition(": ")[2] or behind.todo)
    assert found(hq) == []
    run(hq, "SELECT setval('orders_id_seq', 1600000000)")
    assert "75% of its numbers" in found(hq)[0]
    run(hq, "ALTER SEQUENCE orders_id_seq CYCLE")
    deferred.push(jfk)
    assert "SNP-140" in found(jfk)[0]
    run(hq, "ALTER SEQUENCE orders_id_seq NO CYCLE")
    deferred.push(jfk)
    assert found(jfk) == []
