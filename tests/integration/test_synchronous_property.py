"""The short way of a single row leaves what the long way leaves."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

import synchronous
from masters import rules
from sites import Directory
from sites.errors import SnaptideError
from synchronous import fast
from tests.linked_table import as_refresh, link, rows, run

COLUMNS = (
    "id int PRIMARY KEY, code text UNIQUE, n numeric(6,2), c char(4), v varchar(3)"
)

values = st.fixed_dictionaries(
    {
        "code": st.sampled_from([None, "a", "b", "x"]),
        "n": st.sampled_from([None, "1.0", "1.00", "2.5", "-3"]),
        "c": st.sampled_from([None, "", "ab", "ab  "]),
        "v": st.sampled_from([None, "", "abc"]),
    }
)
rows_or_none = st.one_of(st.none(), values)
_WRITING = (
    "SELECT set_config('snaptide.writing', to_regclass('public.t')::oid::text, true)"
)
INSERT = (
    "INSERT INTO public.t (id, code, n, c, v)"
    " VALUES (1, :code, CAST(:n AS numeric), :c, :v)"
)
UPDATE = (
    "UPDATE public.t SET code = :code, n = CAST(:n AS numeric), c = :c, v = :v"
    " WHERE id = 1"
)


@pytest.fixture
def linked(sites: Directory) -> Directory:
    """A table with a rule for one of its groups and another row that holds a value."""
    link(sites, "t", COLUMNS, synchronous=True)
    rules.set_column_group(sites["hq"], "t", "numbers", ["n"])
    rules.add_update_resolution(sites["hq"], "t", "numbers", "overwrite")
    return sites


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(here=rows_or_none, there=rows_or_none, becomes=rows_or_none, same=st.booleans())
def test_both_ways_leave_the_same(
    linked: Directory,
    here: dict[str, Any] | None,
    there: dict[str, Any] | None,
    becomes: dict[str, Any] | None,
    same: bool,
) -> None:
    def outcome(build: Callable[..., object]) -> list[object]:
        _put(linked, here, here if same else there)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fast, "build", build)
            for site in linked.values():
                site.close()
            failed = _change(linked, here, becomes)
        log = 'SELECT kind, k1 FROM snaptide."mlog$_t" ORDER BY xid, kind'
        return [
            failed,
            *(rows(s, "t") for s in linked.values()),
            run(linked["hq"], log),
        ]

    assert outcome(fast.build) == outcome(lambda *_: None)


def _put(
    sites: Directory, here: dict[str, Any] | None, there: dict[str, Any] | None
) -> None:
    for name, row in (("jfk", here), ("hq", there)):
        site = sites[name]
        as_refresh(site, "DELETE FROM t", "INSERT INTO t VALUES (2, 'x')")
        if row is not None:
            with site.begin() as connection:
                connection.execute(text("SET LOCAL snaptide.origin = 'hq'"))
                connection.execute(text(_WRITING))
                code = None if row["code"] == "x" else row["code"]
                connection.execute(text(INSERT), {**row, "code": code})
    run(sites["hq"], 'DELETE FROM snaptide."mlog$_t"')


def _change(
    sites: Directory, here: dict[str, Any] | None, becomes: dict[str, Any] | None
) -> str | None:
    statement = "DELETE FROM public.t WHERE id = 1"
    if becomes is not None:
        becomes = {**becomes, "code": becomes["code"] if here is None else None}
        if becomes["code"] == "x":
            becomes["code"] = "y"
        statement = INSERT if here is None else UPDATE
    try:
        with synchronous.begin(sites["jfk"]) as connection:
            connection.execute(text(statement), becomes or {})
    except SnaptideError as error:
        return type(error).__name__
    return None
