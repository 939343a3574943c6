"""Sites that still show columns which their master has split get them by a lens."""

from pathlib import Path
from typing import Any

import pytest

import deferred
import masters
import snapshots
import synchronous
from deferred.errors import TargetColumnsMoved
from masters.errors import UnknownColumn
from sites import Directory, Site
from snapshots.definitions.errors import ColumnsRefused
from snapshots.differences import comparison
from snapshots.errors import ColumnGone, LensFails
from snaptide import doctor
from synchronous.errors import RefusedByMaster
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, parked, run
from tests.stories import refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

NAMES = "SELECT id, full_name, qty FROM public.people ORDER BY id"
REFUSALS = (RefusedByMaster, UnknownColumn, TargetColumnsMoved)
DROP = "ALTER TABLE public.people DROP full_name"
FIRST, LAST = "split_part(full_name, ' ', 1)", "split_part(full_name, ' ', 2)"


def split(hq: Site, back: str = "first || ' ' || last", *, drop: bool = True) -> None:
    """Have two columns in place of one, and declare how they are related."""
    run(hq, "ALTER TABLE public.people ADD first text, ADD last text")
    snapshots.map_shape(
        hq,
        "people",
        gone=["full_name"],
        sets={"first": FIRST, "last": LAST},
        backs={"full_name": back},
    )
    run(hq, f"UPDATE public.people SET first = {FIRST}, last = {LAST}")
    if drop:
        run(hq, DROP)


@prepared_once("hq", "jfk", needs="spark")
def sites(sites: Directory) -> None:
    """Updatable snapshots of some rows, and of all but a column."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.people"
        " (id int PRIMARY KEY, full_name varchar(12), qty int)",
        "INSERT INTO public.people VALUES"
        " (1, 'Ada Love', 1), (2, 'Bob Lee', 2), (3, 'Eve Ng', 3), (9, 'No One', 0)",
    )
    log(hq, "people")
    made: dict[str, Any] = {"master": "hq", "group": "all", "updatable": True}
    snapshots.create(jfk, "people", where="qty > 0", **made)
    snapshots.create(jfk, "few", table="people", columns=["id", "qty"], **made)
    refresh(jfk, "all")


def methods(jfk: Site) -> list[str]:
    report = snapshots.refresh(jfk, "all")
    assert report.behind == ()
    return [one.method for one in report.snapshots]


def differing(jfk: Site) -> list[tuple[str, int]]:
    found = snapshots.check(jfk)
    return [(one.name, sum(c.rows for c in one.counts)) for one in found.snapshots]


def test_an_old_site_sees_what_the_master_has_now(hq: Site, jfk: Site) -> None:
    """All rows are compared once, and then those that the log names."""
    split(hq)
    run(hq, "UPDATE public.people SET first = 'Zoe' WHERE id = 1")
    assert methods(jfk) == ["fast", "complete"]
    assert run(jfk, NAMES) == [
        (1, "Zoe Love", 1),
        (2, "Bob Lee", 2),
        (3, "Eve Ng", 3),
    ]
    run(hq, "UPDATE public.people SET last = 'Moss' WHERE id = 2")
    run(hq, "INSERT INTO public.people VALUES (4, 5, 'New', NULL)")
    run(hq, "UPDATE public.people SET qty = 8 WHERE id = 9")
    run(hq, "DELETE FROM public.people WHERE id = 3")
    assert methods(jfk) == ["fast", "fast"]
    assert run(jfk, NAMES) == [
        (1, "Zoe Love", 1),
        (2, "Bob Moss", 2),
        (4, None, 5),
        (9, "No One", 8),
    ]
    assert differing(jfk) == [("few", 0), ("people", 0)]
    assert methods(jfk) == ["fast", "fast"]


def test_executors_read_by_the_lens(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "most_rows", lambda *_: 0)
    split(hq)
    run(hq, "UPDATE public.people SET first = 'Zoe' WHERE id = 1")
    assert methods(jfk) == ["fast", "complete"]
    assert run(jfk, NAMES)[0] == (1, "Zoe Love", 1)
    assert differing(jfk) == [("few", 0), ("people", 0)]


def test_a_check_and_rectify_go_by_what_the_lens_makes(hq: Site, jfk: Site) -> None:
    split(hq)
    methods(jfk)
    as_refresh(
        jfk, "UPDATE public.\"snap$_people\" SET full_name = 'wrong' WHERE id = 1"
    )
    as_refresh(jfk, 'DELETE FROM public."snap$_people" WHERE id = 2')
    assert differing(jfk) == [("few", 0), ("people", 2)]
    snapshots.rectify(jfk)
    assert differing(jfk) == [("few", 0), ("people", 0)]
    assert run(jfk, NAMES)[:2] == [(1, "Ada Love", 1), (2, "Bob Lee", 2)]
    as_refresh(
        jfk, "UPDATE public.\"snap$_people\" SET full_name = 'Zoe Love' WHERE id = 1"
    )
    snapshots.rectify(jfk, "people", reference="site")
    assert deferred.push(jfk).errors == 0
    methods(jfk)
    assert differing(jfk) == [("few", 0), ("people", 0)]
    assert run(hq, "SELECT first, last FROM public.people WHERE id = 1") == [
        ("Zoe", "Love")
    ]


def test_doctor_finds_nothing_wrong_with_a_lens(hq: Site, jfk: Site) -> None:
    split(hq)
    methods(jfk)
    assert [one for one in doctor.examine(jfk) if one.subject == "people"] == []
    snapshots.drop_shape(hq, "people", "full_name", force=True)
    assert any("refreshes stop" in one.what for one in doctor.examine(jfk))


def test_a_value_that_does_not_fit_is_held_back(hq: Site, jfk: Site) -> None:
    split(hq)
    methods(jfk)
    run(hq, "UPDATE public.people SET first = 'Wilhelmina' WHERE id = 1")
    report = snapshots.refresh(jfk, "all")
    assert [one.held_back for one in report.snapshots] == [0, 1]
    assert run(jfk, NAMES)[0] == (1, "Ada Love", 1)
    run(hq, "UPDATE public.people SET first = 'Mina' WHERE id = 1")
    methods(jfk)
    assert run(jfk, NAMES)[0] == (1, "Mina Love", 1)


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
def test_a_lens_that_fails_for_a_row_names_it(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch, *, many: bool
) -> None:
    """The snapshot stays behind, and the other of its group does not."""
    if many:
        monkeypatch.setattr(comparison, "most_rows", lambda *_: 0)
    split(hq, "first || (100 / length(last))")
    run(hq, "UPDATE public.people SET last = '' WHERE id = 2")
    run(hq, "UPDATE public.people SET last = '', qty = 0 WHERE id = 9")
    [left] = snapshots.refresh(jfk, "all").behind
    assert (left.name, left.code) == ("people", LensFails.code)
    assert "cannot make full_name for the row 2: division by zero" in left.why
    run(hq, "UPDATE public.people SET last = 'Lee' WHERE id = 2")
    methods(jfk)
    assert run(jfk, NAMES)[1] == (2, "Bob33", 2)
    run(hq, "UPDATE public.people SET last = '' WHERE id = 3")
    with pytest.raises(LensFails, match="for the row 3: division by zero"):
        snapshots.check(jfk, "people")


def test_a_function_that_a_lens_calls_is_gone(hq: Site, jfk: Site) -> None:
    run(
        hq,
        "CREATE FUNCTION public.whole(text, text) RETURNS text IMMUTABLE LANGUAGE sql"
        " RETURN $1 || ' ' || $2",
    )
    split(hq, "whole(first, last)")
    methods(jfk)
    run(
        hq,
        "DROP FUNCTION public.whole",
        "UPDATE public.people SET qty = 8, last = 'Moss' WHERE id = 1",
    )
    report = snapshots.refresh(jfk, "all")
    [left] = report.behind
    assert (left.name, left.code) == ("people", LensFails.code)
    assert "function public.whole(text, text) does not exist" in left.why
    assert run(jfk, "SELECT qty FROM public.few WHERE id = 1") == [(8,)]


def test_another_lens_is_another_value_of_all_rows(hq: Site, jfk: Site) -> None:
    split(hq)
    methods(jfk)
    snapshots.drop_shape(hq, "people", "full_name", force=True)
    with pytest.raises(ColumnGone):
        snapshots.refresh(jfk, "all", strict=True)
    snapshots.map_shape(
        hq,
        "people",
        gone=["full_name"],
        sets={"first": FIRST, "last": LAST},
        backs={"full_name": "upper(first)"},
    )
    assert methods(jfk) == ["fast", "complete"]
    assert run(jfk, NAMES)[0] == (1, "ADA", 1)


def test_columns_that_are_renamed_later(hq: Site, jfk: Site) -> None:
    """A new column may also have the name of the old one."""
    split(hq)
    methods(jfk)
    run(
        hq,
        "ALTER TABLE public.people RENAME first TO full_name",
        'ALTER TABLE public.people RENAME last TO "Sur%name"',
        "UPDATE public.people SET full_name = 'Zoe' WHERE id = 1",
    )
    methods(jfk)
    assert run(jfk, NAMES)[0] == (1, "Zoe Love", 1)
    assert differing(jfk) == [("few", 0), ("people", 0)]


def test_a_site_that_follows_has_the_new_columns(hq: Site, jfk: Site) -> None:
    split(hq, drop=False)
    masters.execute_ddl(hq, DROP)
    methods(jfk)
    found = snapshots.describe_snapshot(jfk, "people")
    assert found.columns == ("id", "qty")
    snapshots.alter_columns(jfk, "people", add=["first", "last"])
    settle(jfk)
    assert differing(jfk) == [("few", 0), ("people", 0)]


def test_an_image_of_before_the_split(hq: Site, jfk: Site, tmp_path: Path) -> None:
    snapshots.create(jfk, "early", table="people", master="hq", updatable=True)
    snapshots.make_image(hq, tmp_path, ["people"])
    split(hq)
    run(hq, "UPDATE public.people SET first = 'Zoe' WHERE id = 1")
    snapshots.load_image(jfk, "early", tmp_path)
    assert snapshots.refresh(jfk, "early").behind == ()
    assert run(jfk, "SELECT full_name FROM public.early ORDER BY id") == [
        ("Zoe Love",),
        ("Bob Lee",),
        ("Eve Ng",),
        ("No One",),
    ]


def test_a_first_load_of_old_columns(hq: Site, jfk: Site) -> None:
    """In the group of a snapshot that is loaded and has them, too."""
    made: dict[str, Any] = {"table": "people", "master": "hq", "updatable": True}
    snapshots.create(jfk, "early", group="all", **made)
    split(hq)
    assert methods(jfk) == ["load", "fast", "complete"]
    assert run(jfk, "SELECT full_name FROM public.early WHERE id = 1") == [
        ("Ada Love",)
    ]
    run(hq, "UPDATE public.people SET first = 'Zoe' WHERE id = 1")
    assert methods(jfk) == ["fast", "fast", "fast"]
    run(jfk, "UPDATE public.early SET full_name = 'Zoe Lane' WHERE id = 1")
    assert deferred.push(jfk).errors == 0
    assert run(hq, "SELECT first, last FROM public.people WHERE id = 1") == [
        ("Zoe", "Lane")
    ]
    methods(jfk)
    assert run(jfk, NAMES)[0] == (1, "Zoe Lane", 1)
    assert differing(jfk) == [("early", 0), ("few", 0), ("people", 0)]


def test_a_site_follows_with_what_it_has_queued(hq: Site, jfk: Site) -> None:
    """What waits for the old column is lifted before the column goes."""
    masters.execute_ddl(hq, "ALTER TABLE people ADD first text, ADD last text")
    snapshots.map_shape(
        hq,
        "people",
        gone=["full_name"],
        sets={"first": FIRST, "last": LAST},
        backs={"full_name": "first || ' ' || last"},
    )
    run(jfk, "UPDATE public.people SET full_name = 'Zoe Lane' WHERE id = 1")
    run(jfk, "INSERT INTO public.people VALUES (5, 'New One', 7)")
    filled = f"UPDATE people SET first = {FIRST}, last = {LAST}"
    masters.execute_ddl(hq, f"LOCK TABLE people; {filled}; {DROP}")
    methods(jfk)
    assert parked(hq) == []
    assert snapshots.describe_snapshot(jfk, "people").columns == (
        "id",
        "qty",
        "first",
        "last",
    )
    settle(jfk)
    seen = "SELECT id, first, last FROM public.people WHERE id IN (1, 5) ORDER BY id"
    assert run(hq, seen) == run(jfk, seen) == [(1, "Zoe", "Lane"), (5, "New", "One")]
    assert differing(jfk) == [("few", 0), ("people", 0)]


@pytest.mark.parametrize("by", ["hand", "ddl"])
def test_an_old_site_gets_other_columns(hq: Site, jfk: Site, by: str) -> None:
    """It goes on by the lens, with what it has queued."""
    split(hq)
    methods(jfk)
    run(jfk, "UPDATE public.people SET full_name = 'Zoe Lane' WHERE id = 1")
    if by == "hand":
        run(hq, "ALTER TABLE public.people ADD gate text DEFAULT 'A1'")
        snapshots.alter_columns(jfk, "people", add=["gate"])
        run(hq, "ALTER TABLE public.people RENAME gate TO door")
        snapshots.alter_columns(jfk, "people", rename={"gate": "door"})
    else:
        masters.execute_ddl(hq, "ALTER TABLE people ADD gate text DEFAULT 'A1'")
        masters.execute_ddl(hq, "ALTER TABLE people RENAME gate TO door")
        methods(jfk)
    assert parked(hq) == []
    run(jfk, "UPDATE public.people SET full_name = 'Bob Moss' WHERE id = 2")
    settle(jfk)
    assert parked(hq) == []
    seen = "SELECT first, last FROM public.people WHERE id IN (1, 2) ORDER BY id"
    assert run(hq, seen) == [("Zoe", "Lane"), ("Bob", "Moss")]
    found = snapshots.describe_snapshot(jfk, "people")
    assert found.columns == ("id", "full_name", "qty", "door")
    assert differing(jfk) == [("few", 0), ("people", 0)]
    with pytest.raises(ColumnsRefused, match="renamed or dropped full_name"):
        snapshots.alter_columns(jfk, "people", add=["first"])


def test_a_synchronous_change_waits_until_the_site_follows(hq: Site, jfk: Site) -> None:
    snapshots.alter_propagation(jfk, "all", synchronous=True)
    split(hq)
    methods(jfk)
    assert run(jfk, NAMES)[0] == (1, "Ada Love", 1)
    for change in (
        "UPDATE public.people SET full_name = 'Zoe Love' WHERE id = 1",
        "UPDATE public.people SET qty = 5 WHERE id = 1",
        "INSERT INTO public.people VALUES (7, 'New One', 7)",
    ):
        with pytest.raises(REFUSALS), synchronous.begin(jfk) as connection:
            connection.exec_driver_sql(change)
    assert run(hq, "SELECT first, qty FROM public.people WHERE id IN (1, 7)") == [
        ("Ada", 1)
    ]
    assert differing(jfk) == [("few", 0), ("people", 0)]


def test_a_master_that_has_no_lenses_yet(hq: Site, jfk: Site) -> None:
    """Its catalog is that of an earlier version; it is not asked for any."""
    run(
        hq,
        DROP,
        "DROP TABLE snaptide.lens",
        "UPDATE snaptide.alembic_version SET version_num = '0074'",
    )
    found = snapshots.refresh(jfk, "all")
    assert [one.name for one in found.behind] == ["people"]
    assert [one.name for one in found.snapshots] == ["few"]
