"""Triggers of users' own that change settings of the session in which they fire.

SET holds for the session unless its transaction is rolled back, and sessions of ours
serve many transactions, and then other tasks.
"""

import pytest

import deferred
import snapshots
from deferred.errors import PushInterrupted
from sites import Directory, Site
from tests.fix_sites import log
from tests.linked_table import link, parked, queued, rows, run
from tests.stories import refresh

COLUMNS = "id int PRIMARY KEY, f float8, at timestamptz, b bytea, span interval"
ROW = "({}, 1.0/3, '2026-02-03 04:05:06.7+08', '\\xff00', '-1 year 2 days 3:04:05')"

#: What a trigger does, by the setting.
SETS = {
    "search_path": "SET search_path = public, pg_catalog",
    "timezone": "SET timezone = 'Asia/Kolkata'",
    "datestyle": "SET datestyle = 'SQL, DMY'",
    "intervalstyle": "SET intervalstyle = 'sql_standard'",
    "extra_float_digits": "SET extra_float_digits = -12",
    "bytea_output": "SET bytea_output = 'escape'",
    "standard_conforming_strings": "SET standard_conforming_strings = off",
    "session_replication_role": "SET session_replication_role = replica",
    "statement_timeout": "SET statement_timeout = '1h'",
    "lock_timeout": "SET lock_timeout = '1h'",
    "snaptide.origin": "PERFORM set_config('snaptide.origin', 'ord', false)",
    "snaptide.writing": "PERFORM set_config('snaptide.writing', 'call', false)",
}

#: At the end of the transaction, when nothing is written any more.
LATE = (
    "CREATE CONSTRAINT TRIGGER careless AFTER INSERT OR UPDATE ON {}"
    " DEFERRABLE INITIALLY DEFERRED"
)
EARLY = "CREATE TRIGGER careless BEFORE INSERT OR UPDATE ON {}"


def careless(site: Site, table: str, *what: str, when: str = EARLY) -> None:
    """Let each row that is written to a table set something for the session."""
    run(
        site,
        "CREATE FUNCTION public.careless() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {'; '.join(what)}; RETURN NEW; END $$",
        f"{when.format(table)} FOR EACH ROW EXECUTE FUNCTION public.careless()",
    )


def settings(site: Site) -> dict[str, str]:
    """The settings of the session that the next task gets from the pool."""
    query = "SELECT current_setting(%s, true)"
    with site.session() as connection:
        return {
            name: connection.exec_driver_sql(query, (name,)).scalar_one() or ""
            for name in SETS
        }


@pytest.mark.parametrize("name", SETS)
def test_a_push_ends_settings_of_triggers(sites: Directory, name: str) -> None:
    link(sites, columns=COLUMNS)
    hq, jfk = sites["hq"], sites["jfk"]
    before = settings(hq)
    careless(hq, "public.orders", SETS[name])
    for number in (1, 2, 3):
        run(jfk, f"INSERT INTO public.orders VALUES {ROW.format(number)}")
    assert deferred.push(jfk).errors == 0
    assert rows(hq) == rows(jfk)
    assert settings(hq) == before


@pytest.mark.parametrize("when", [EARLY, LATE], ids=["early", "late"])
def test_a_push_of_several_reads_as_before(sites: Directory, when: str) -> None:
    """The first transaction fires the trigger, the second is parked."""
    link(sites, columns=COLUMNS)
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "INSERT INTO public.orders VALUES (2, 0.7)")
    for number in (1, 2, 3):
        run(jfk, f"INSERT INTO public.orders VALUES {ROW.format(number)}")
    careless(hq, "public.orders", *SETS.values(), when=when)
    assert deferred.push(jfk).errors == 1
    ((error, *_),) = parked(hq)
    (call,) = deferred.show_error(hq, error).calls
    assert call.new == {
        "id": "2",
        "f": "0.3333333333333333",
        "at": "2026-02-02 20:05:06.7+00",
        "b": "\\xff00",
        "span": "-1 years +2 days 03:04:05",
    }
    run(hq, "DELETE FROM public.orders WHERE id = 2")
    assert [one.applied for one in deferred.retry_errors(hq)] == [True]
    assert rows(hq) == rows(jfk)


@pytest.mark.usefixtures("spark")
def test_a_refresh_ends_settings_of_triggers(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE TABLE public.t ({COLUMNS})")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    before = settings(jfk)
    careless(jfk, 'public."snap$_t"', *SETS.values())
    for number in (1, 2):
        run(hq, f"INSERT INTO public.t VALUES {ROW.format(number)}")
        refresh(jfk, "t")
    assert rows(jfk, "t") == rows(hq, "t")
    assert settings(jfk) == before


def test_what_triggers_set_ends_before_foreign_keys_are_checked(
    sites: Directory,
) -> None:
    """Without it, a row would hang on a parent that is not there."""
    link(sites, columns="id int PRIMARY KEY, parent int")
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.parents (id int PRIMARY KEY)",
        "INSERT INTO public.parents VALUES (1)",
        "ALTER TABLE public.orders ADD FOREIGN KEY (parent) REFERENCES public.parents",
    )
    careless(hq, "public.orders", SETS["session_replication_role"])
    run(jfk, "INSERT INTO public.orders VALUES (1, 1)")
    deferred.push(jfk)
    run(hq, "DROP TRIGGER careless ON public.orders")
    run(jfk, "INSERT INTO public.orders VALUES (2, 99)")
    deferred.push(jfk)
    assert [error[1:3] for error in parked(hq)] == [("error", "23503")]


def test_another_role_stops_a_push(sites: Directory) -> None:
    """Nothing of the transaction remains, and the session is as it was."""
    link(sites, columns=COLUMNS)
    hq, jfk = sites["hq"], sites["jfk"]
    careless(hq, "public.orders", "SET ROLE pg_monitor")
    run(jfk, f"INSERT INTO public.orders VALUES {ROW.format(1)}")
    with pytest.raises(PushInterrupted, match="permission denied"):
        deferred.push(jfk)
    assert (rows(hq), queued(jfk)) == ([], 1)
    run(hq, "DROP TRIGGER careless ON public.orders")
    deferred.push(jfk)
    assert rows(hq) == rows(jfk)
