"""What is asked for wrongly is refused with a reason; nothing is executed or shown."""

import json
import logging
from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner, Result

import deferred
import masters
import snapshots
from deferred.errors import NoSuchDestination
from masters.errors import NoPrimaryKey
from masters.errors import NoSnapshotLog as NoLogYet
from sites import Directory, OtherDatabase, Site
from sites.conditions.where import BadCondition, ConditionNotImmutable
from sites.errors import SiteUnreachable, SnaptideError, UnknownSite, UnknownTable
from snapshots.errors import (
    NoSnapshotLog,
    SnapshotLogTooYoung,
)
from snaptide.cli import app
from snaptide.embedded.ports import free_port
from tests.fix_secrets import watched
from tests.fix_sites import log
from tests.fix_worker import WriteSettings
from tests.linked_table import run
from tests.stories import assert_equal_to_master, push_and_refresh, refresh

pytestmark = pytest.mark.usefixtures("spark")

SECRET = "p@ss w:rd/%41#hunter2"

Snaptide = Callable[..., Result]


@pytest.fixture
def hq(sites: Directory) -> Site:
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, owner text, at timestamptz,"
        " day date, local timestamp, v numeric)",
        "INSERT INTO public.t SELECT i, 'postgres', now(), now(), now(), i"
        " FROM generate_series(1, 9) i",
        "CREATE TABLE public.secret (id int PRIMARY KEY)",
        "INSERT INTO public.secret VALUES (1)",
        "CREATE FUNCTION public.danger(int) RETURNS int LANGUAGE plpgsql AS"
        " 'BEGIN DELETE FROM public.secret; RETURN 1; END'",
        # Says that it is harmless, so that only being executed would betray it.
        "CREATE FUNCTION public.disguised(int) RETURNS boolean IMMUTABLE"
        " LANGUAGE plpgsql AS"
        " 'BEGIN DELETE FROM public.secret; RETURN true; END'",
    )
    log(sites["hq"], "t")
    return sites["hq"]


@pytest.fixture
def jfk(sites: Directory, hq: Site) -> Site:
    run(
        sites["jfk"],
        "CREATE TABLE public.secret (id int PRIMARY KEY)",
        "INSERT INTO public.secret VALUES (1)",
    )
    return sites["jfk"]


@pytest.fixture
def snaptide(sites: Directory, write_settings: WriteSettings) -> Snaptide:
    """Run a command with the settings of the two sites, or of others."""

    def call(*arguments: str, directory: Directory = sites) -> Result:
        config = write_settings(directory)
        return CliRunner().invoke(app, ["--config", str(config), *arguments])

    return call


def told(result: Result, code: int = 1) -> dict[str, str]:
    """The error that a command printed as JSON."""
    assert result.exit_code == code, result.output
    error: dict[str, str] = json.loads(result.stderr)["error"]
    assert error["code"].startswith("SNP-")
    assert error["code"] != "SNP-499"
    assert error["hint"]
    return error


# --- sites that are not there --------------------------------------------------


def test_unknown_site(jfk: Site, sites: Directory, snaptide: Snaptide) -> None:
    with pytest.raises(UnknownSite, match="known: hq, jfk"):
        sites["nowhere"]
    with pytest.raises(UnknownSite):
        snapshots.create(jfk, "t", master="nowhere")
    with pytest.raises(NoSuchDestination):
        deferred.push(jfk, "nowhere")
    for command in (
        ("push", "nowhere"),
        ("refresh", "nowhere", "t"),
        ("snapshot", "create", "jfk", "t", "--master", "nowhere"),
        ("log", "create", "nowhere", "t"),
    ):
        error = told(snaptide(*command, "--json"))
        assert "nowhere" in error["message"]
        assert "hq" in error["message"]


@pytest.fixture(params=["wrong password", "no server", "no database"])
def away(request: pytest.FixtureRequest, sites: Directory) -> Iterator[Directory]:
    """The two sites, and the master cannot be reached."""
    watched.remember(SECRET)
    url = {
        "wrong password": sites["hq"].url.set(password=SECRET),
        "no server": sites["hq"].url.set(password=SECRET, port=free_port()),
        "no database": sites["hq"].url.set(database="nowhere"),
    }[request.param]
    directory = Directory({"hq": url, "jfk": sites["jfk"].url})
    yield directory
    directory.close()


def test_unreachable_master(
    hq: Site,
    jfk: Site,
    away: Directory,
    snaptide: Snaptide,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(jfk, "UPDATE public.t SET v = 100 WHERE id = 1")
    shown: list[object] = []
    there = away["jfk"]
    for attempt in (
        lambda: deferred.push(there),
        lambda: snapshots.refresh(there, "t"),
        lambda: refresh(there, "t", method="c"),
        lambda: snapshots.create(there, "other", master="hq", table="t"),
        lambda: masters.create_snapshot_log(away["hq"], "secret"),
    ):
        with pytest.raises(SiteUnreachable) as refused:
            attempt()
        shown += [refused.value, refused.value.facts, refused.getrepr(chain=True)]
    shown += [away, away["hq"], away["hq"].engine, away["hq"].address]
    for command in (
        ("push", "jfk"),
        ("refresh", "jfk", "t"),
        ("site", "check"),
        ("status",),
        ("doctor",),
        ("--debug", "push", "jfk"),
    ):
        for option in ([], ["--json"]):
            result = snaptide(*command, *option, directory=away)
            assert result.exit_code in (1, 3, 4), result.output
            shown += [result.output, result.stderr, result.exception]
    assert snaptide("push", "jfk", directory=away).exit_code == 4
    text = "\n".join([caplog.text, *map(repr, shown), *map(str, shown)])
    _assert_not_in(text)
    # And nothing of the site's work is lost.
    assert push_and_refresh(jfk, "t").transactions == 1
    assert_equal_to_master(jfk)


def _assert_not_in(text: str) -> None:
    for form in (SECRET, "hunter2", "p%40ss", "p@ss"):
        assert form not in text


def test_password_is_not_shown_by_what_fails_later(
    hq: Site, jfk: Site, snaptide: Snaptide, caplog: pytest.LogCaptureFixture
) -> None:
    """The right password, and a failure in the middle of COPY by an executor."""
    caplog.set_level(logging.DEBUG)
    snapshots.create(jfk, "t", master="hq", updatable=True)
    run(
        jfk,
        'ALTER TABLE public."snap$_t" ADD CONSTRAINT no CHECK (id < 0)',
    )
    with pytest.raises(SnaptideError) as refused:
        refresh(jfk, "t")
    result = snaptide("refresh", "jfk", "t", "--json")
    password = str(jfk.url.password)
    assert len(password) > 8
    parts = (caplog.text, str(refused.value), result.output, str(refused.getrepr()))
    for text in parts:
        assert password not in text


# --- tables that do not do -----------------------------------------------------


def test_no_primary_key(hq: Site, jfk: Site, snaptide: Snaptide) -> None:
    run(hq, "CREATE TABLE public.plain (id int)")
    with pytest.raises(NoPrimaryKey):
        masters.create_snapshot_log(hq, "plain")
    error = told(snaptide("log", "create", "hq", "plain", "--json"))
    assert "primary key" in error["message"]
    assert "rowid" in error["hint"].lower()


def test_missing_log(hq: Site, jfk: Site, snaptide: Snaptide) -> None:
    with pytest.raises(NoLogYet):
        snapshots.create(jfk, "secret", master="hq", group="g")
    with pytest.raises(UnknownTable):
        snapshots.create(jfk, "nothing", master="hq")
    told(snaptide("snapshot", "create", "jfk", "s", "--master", "hq", "--json"))
    # Nothing is left of it at either side.
    assert snapshots.list_snapshots(jfk) == []
    assert run(hq, "SELECT 1 FROM snaptide.registered_snapshot") == []


def test_log_that_was_dropped(hq: Site, jfk: Site, snaptide: Snaptide) -> None:
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")
    masters.drop_snapshot_log(hq, "t", force=True)
    run(hq, "UPDATE public.t SET v = 100 WHERE id = 1")
    with pytest.raises(NoSnapshotLog):
        refresh(jfk, "t", method="f")
    told(snaptide("refresh", "jfk", "t", "--method", "f", "--json"))
    assert refresh(jfk, "t")["t"].method == "complete"
    assert_equal_to_master(jfk)


def test_log_that_is_younger_than_the_snapshot(
    hq: Site, jfk: Site, snaptide: Snaptide
) -> None:
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")
    masters.drop_snapshot_log(hq, "t", force=True)
    run(hq, "UPDATE public.t SET v = 100 WHERE id = 1")
    log(hq, "t")
    with pytest.raises(SnapshotLogTooYoung):
        refresh(jfk, "t", method="f")
    error = told(snaptide("refresh", "jfk", "t", "--method", "f", "--json"))
    assert "complete" in error["hint"]
    assert refresh(jfk, "t", method="?")["t"].method == "complete"
    run(hq, "UPDATE public.t SET v = 200 WHERE id = 1")
    assert refresh(jfk, "t", method="f")["t"].updated == 1
    assert_equal_to_master(jfk)


def test_snapshot_without_its_master_table(
    hq: Site, jfk: Site, snaptide: Snaptide
) -> None:
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(hq, "ALTER TABLE public.t RENAME TO elsewhere")
    run(jfk, "UPDATE public.t SET v = 100 WHERE id = 1")
    with pytest.raises(UnknownTable):
        refresh(jfk, "t")
    told(snaptide("refresh", "jfk", "t", "--json"))
    # The snapshot can be read and written, and what it queued stays.
    assert run(jfk, "SELECT v FROM public.t WHERE id = 1") == [(100,)]
    run(hq, "ALTER TABLE public.elsewhere RENAME TO t")
    assert push_and_refresh(jfk, "t").transactions == 1
    assert_equal_to_master(jfk)


def test_master_that_is_another_database(
    make_sites: Callable[..., Directory], hq: Site, jfk: Site
) -> None:
    """The name leads to a master that never heard of the snapshot."""
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(jfk, "UPDATE public.t SET v = 100 WHERE id = 1")
    other = make_sites("hq")["hq"]
    run(other, "CREATE TABLE public.t (id int PRIMARY KEY)")
    mixed = Directory({"hq": other.url, "jfk": jfk.url})
    with pytest.raises(OtherDatabase):
        refresh(mixed["jfk"], "t")
    mixed.close()
    assert run(jfk, "SELECT count(*) FROM public.t") == [(9,)]


# --- names that are SQL --------------------------------------------------------

EVIL = (
    't"; DROP TABLE public.secret; --',
    "t'; DROP TABLE public.secret; --",
    "t; DROP TABLE public.secret",
    'public"."t"; DROP TABLE public.secret; --',
    "t) ; DELETE FROM public.secret; --",
    "t/*",
    "%s",
    "%(x)s",
    ":x",
    "$1",
    "\\",
    "",
    " ",
    '"',
    '"t',
    "a.b.c",
    "t\0",
    "x" * 200,
)


def test_names_are_not_executed(hq: Site, jfk: Site) -> None:
    for name in EVIL:
        for attempt in _attempts(hq, jfk, name):
            with pytest.raises(SnaptideError):
                attempt()
        _assert_secret_stands(hq, jfk)


def _attempts(hq: Site, jfk: Site, name: str) -> tuple[Callable[[], object], ...]:
    return (
        lambda: masters.create_snapshot_log(hq, name),
        lambda: masters.drop_snapshot_log(hq, name),
        lambda: snapshots.create(jfk, "s", master="hq", table=name),
        lambda: snapshots.create(jfk, "s", master="hq", table="t", columns=[name]),
        lambda: snapshots.create(jfk, f"{name}.s", master="hq", table="t"),
        lambda: snapshots.refresh(jfk, name),
        lambda: snapshots.refresh(jfk, [name, name]),
        lambda: snapshots.drop(jfk, name),
        lambda: snapshots.describe_snapshot(jfk, name),
        lambda: deferred.push(jfk, name),
    )


def _assert_secret_stands(*sites: Site) -> None:
    for site in sites:
        assert run(site, "SELECT id FROM public.secret") == [(1,)]


#: Names that are allowed, and look like something else.
TABLE = 'Bobby"; DROP TABLE public.secret; -- %s %(x)s :x $1'
COLUMNS = ('select "', "a'); DROP TABLE public.secret; --", "%s", ":y", "n 1")


def test_names_that_look_like_sql_are_names(hq: Site, jfk: Site) -> None:
    """The whole way: log, snapshot, capture, push, apply, refresh, merge."""
    quoted = _quoted(TABLE)
    columns = ", ".join(f"{_quoted(c)} text" for c in COLUMNS)
    names = ", ".join(map(_quoted, COLUMNS))
    run(
        hq,
        f"CREATE TABLE public.{quoted} (id int PRIMARY KEY, {columns})",
        f"INSERT INTO public.{quoted} (id, {names})"
        " SELECT i, 'a', 'b', 'c', 'd', 'e' FROM generate_series(1, 5) i",
    )
    name = f"public.{quoted}"
    log(hq, name)
    group = "g'; DROP TABLE public.secret; --"
    condition = f"{_quoted(COLUMNS[0])} <> 'it''s %s :x; DROP TABLE public.secret'"
    snapshots.create(
        jfk, name, master="hq", group=group, where=condition, updatable=True
    )
    for method in ("", "f", "c"):
        run(hq, f"UPDATE public.{quoted} SET {_quoted(COLUMNS[1])} = '%s' WHERE id = 1")
        run(jfk, "SELECT 1")
        snapshots.refresh(jfk, group, method=method)
        assert_equal_to_master(jfk)
        run(
            jfk,
            f"UPDATE public.{quoted} SET {_quoted(COLUMNS[2])} = ':x' || '{method}'",
        )
    assert push_and_refresh(jfk, group).errors == 0
    assert_equal_to_master(jfk)
    snapshots.drop(jfk, name)
    _assert_secret_stands(hq, jfk)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


COMMANDS = (
    ("log", "create", "hq"),
    ("snapshot", "create", "jfk", "s", "--master", "hq", "--table"),
    ("snapshot", "create", "jfk", "s", "--master", "hq", "--columns"),
    ("refresh", "jfk"),
    ("snapshot", "show", "jfk"),
    ("push", "jfk"),
)


def test_names_are_not_executed_by_commands(
    hq: Site, jfk: Site, snaptide: Snaptide
) -> None:
    for command in COMMANDS:
        for name in EVIL[:3]:
            told(snaptide(*command, name, "--json"))
    _assert_secret_stands(hq, jfk)


# --- conditions ----------------------------------------------------------------

BAD = (
    "id = 1; DROP TABLE public.secret",
    "id = 1); DROP TABLE public.secret; --",
    "id = 1) OR (id = 2",
    "id = 1 OR (id = 2",
    "id = 1)",
    "id = 1 /*",
    "id = 1 */",
    "id = '",
    'id = "',
    "id = 1 UNION SELECT 1",
    "id = 1 ORDER BY id",
    "id = 1 LIMIT 1",
    "id IN (SELECT id FROM public.secret)",
    "EXISTS (SELECT 1)",
    "count(*) > 0",
    "sum(id) OVER () > 1",
    "id",
    "owner",
    "nothing = 1",
    "id = %s",
    "id = $1",
    ":x",
    "",
    "   ",
    "--",
    "ctid = '(0,1)'",
    "tableoid = 1",
    "generate_series(1, 2) = 1",
    "\0",
)

NOT_IMMUTABLE = (
    "random() > 0.5",
    "v > random()",
    "at > now()",
    "at > clock_timestamp()",
    "day = current_date",
    "owner = current_user",
    "owner = session_user",
    "owner = current_setting('application_name')",
    "day::timestamptz > '2020-01-01'",
    "at::date = '2020-01-01'",
    "at::text LIKE '2020%'",
    "at::timestamp > '2020-01-01'",
    "local::timestamptz > '2020-01-01'",
    "local > at",
    "owner::date = day",
    "owner::timestamptz = at",
    "to_char(at, 'YYYY') = '2020'",
    "date_trunc('day', at) = at",
    "extract(hour FROM at) = 1",
    "txid_current() = 1",
    "public.danger(id) = 1",
)


def test_conditions_that_are_none(hq: Site, jfk: Site) -> None:
    wrong = (BadCondition, NoLogYet)
    assert [c for c in BAD if not _is_refused(jfk, c, *wrong)] == []
    _assert_secret_stands(hq, jfk)
    assert snapshots.list_snapshots(jfk) == []


def test_conditions_that_are_not_immutable(hq: Site, jfk: Site) -> None:
    taken = [c for c in NOT_IMMUTABLE if not _is_refused(jfk, c, ConditionNotImmutable)]
    assert taken == []
    _assert_secret_stands(hq, jfk)


def _is_refused(site: Site, condition: str, *errors: type[SnaptideError]) -> bool:
    try:
        made = snapshots.create(site, "t", master="hq", where=condition)
    except errors:
        return True
    snapshots.drop(site, made.snapshot)
    return False


def test_conditions_by_command(hq: Site, jfk: Site, snaptide: Snaptide) -> None:
    command = ("snapshot", "create", "jfk", "t", "--master", "hq", "--json", "--where")
    for condition in (*BAD[:6], *NOT_IMMUTABLE[:3]):
        told(snaptide(*command, condition))
    _assert_secret_stands(hq, jfk)


def test_condition_is_only_parsed_when_it_is_judged(hq: Site, jfk: Site) -> None:
    """A function is not called before the owner has his snapshot."""
    with pytest.raises(SnaptideError):
        snapshots.create(jfk, "t", master="hq", where="public.disguised(1)")
    _assert_secret_stands(hq, jfk)


ALLOWED = (
    ("id = 1 -- and no more", [1]),
    ("id = 1 /* and */ OR id = 2", [1, 2]),
    ("(id = 1) OR (id = 2)", [1, 2]),
    ("owner = 'it''s; DROP TABLE public.secret; --' OR id = 3", [3]),
    ("owner LIKE '%S' OR owner LIKE '%gres' AND id < 3", [1, 2]),
    ("id::text ~ '^[1:2]$'", [1, 2]),
    ("t.id = 4", [4]),
    ("at > '2020-01-01 00:00+00' AND id = 5", [5]),
    ("local < '2999-01-01' AND date_part('year', local) > 2000 AND id = 5", [5]),
    ("v % 4 = 0", [4, 8]),
    ("true", list(range(1, 10))),
)


def test_conditions_that_are_allowed(hq: Site, jfk: Site) -> None:
    names = [f"t{n}" for n in range(len(ALLOWED))]
    for name, (condition, _) in zip(names, ALLOWED, strict=True):
        snapshots.create(
            jfk, name, master="hq", table="t", group="all", where=condition
        )
    refresh(jfk, "all")
    for name, (condition, ids) in zip(names, ALLOWED, strict=True):
        found = run(jfk, f"SELECT id FROM public.{name} ORDER BY id")
        assert [row[0] for row in found] == ids, condition
    run(hq, "UPDATE public.t SET v = v + 4")
    refresh(jfk, "all")
    assert_equal_to_master(jfk)
    _assert_secret_stands(hq, jfk)
