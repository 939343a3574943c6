"""Partition columns that become others, or are altered under the log."""

from __future__ import annotations

import pytest

import masters
from masters.errors import CannotLogTable, DdlRefused
from masters.log.snapshot_log import replace_functions
from sites import Directory, Site
from snaptide import doctor
from tests.divided import AIRPORTS, divide, looked_at
from tests.fix_worlds import prepared_once
from tests.linked_table import run, scalar

LOGGED = 'SELECT "p$origin" FROM snaptide."mlog$_flights"'


@prepared_once("hq", *AIRPORTS, needs="spark")
def partitioned(sites: Directory) -> None:
    divide(sites)


def test_changes_of_before_the_declaration_are_read_by_all(
    partitioned: Directory,
) -> None:
    hq = partitioned["hq"]
    masters.alter_snapshot_log(hq, "flights", partition_columns=[])
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 3")
    masters.alter_snapshot_log(hq, "flights", partition_columns=["origin"])
    run(hq, "UPDATE flights SET origin = 'SFO' WHERE id = 6")
    assert looked_at(partitioned) == {"jfk": 2, "lax": 1, "sfo": 2}
    run(hq, "UPDATE flights SET seats = 9 WHERE id = 3")
    assert looked_at(partitioned) == {"jfk": 0, "lax": 1, "sfo": 0}


def test_other_columns_take_the_place_of_those_before(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 3")
    made = masters.alter_snapshot_log(hq, "flights", partition_columns=["seats"])
    assert made.partition_columns == ("seats",)
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 6")
    assert looked_at(partitioned) == {"jfk": 2, "lax": 2, "sfo": 2}
    both = ["seats", "origin"]
    made = masters.alter_snapshot_log(hq, "flights", partition_columns=both)
    assert made.partition_columns == ("seats", "origin")
    run(hq, "UPDATE flights SET origin = 'JFK', seats = 1 WHERE id = 3")
    assert looked_at(partitioned) == {"jfk": 1, "lax": 1, "sfo": 0}


@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE flights ALTER COLUMN origin TYPE text",
        'ALTER TABLE flights ALTER COLUMN origin TYPE varchar(3) COLLATE "C"',
        "ALTER TABLE flights ADD COLUMN other varchar(3)",
    ],
)
def test_a_column_that_is_altered_loses_no_change(
    partitioned: Directory, ddl: str
) -> None:
    hq = partitioned["hq"]
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 3", ddl)
    run(hq, "UPDATE flights SET origin = 'SFO' WHERE id = 6")
    looked_at(partitioned)
    run(hq, "UPDATE flights SET origin = 'SFO' WHERE id = 9")
    looked_at(partitioned)
    masters.alter_snapshot_log(hq, "flights", partition_columns=["origin"])
    looked_at(partitioned)
    run(hq, "UPDATE flights SET seats = 1 WHERE origin = 'LAX'")
    assert looked_at(partitioned)["jfk"] == 0


def test_a_column_whose_name_another_one_had_for_a_while(
    partitioned: Directory,
) -> None:
    hq = partitioned["hq"]
    run(hq, "ALTER TABLE flights ADD COLUMN spare varchar(3) DEFAULT 'SFO'")
    looked_at(partitioned)
    run(hq, *_renamed("origin", "mine"), *_renamed("spare", "origin"))
    run(hq, "UPDATE flights SET mine = 'LAX' WHERE id = 3")
    run(hq, *_renamed("origin", "spare"), *_renamed("mine", "origin"))
    assert looked_at(partitioned) == {"jfk": 1, "lax": 1, "sfo": 1}


def _renamed(before: str, after: str) -> list[str]:
    return [f"ALTER TABLE flights RENAME COLUMN {before} TO {after}"]


def test_users_go_on_writing_without_the_column(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    run(hq, "ALTER TABLE flights DROP COLUMN origin")
    run(hq, "UPDATE flights SET seats = 1 WHERE id = 3")
    assert scalar(hq, LOGGED) == 1


def test_a_table_without_the_key_of_its_log(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    run(hq, "ALTER TABLE flights DROP COLUMN id")
    with pytest.raises(CannotLogTable, match="no longer has the key"):
        masters.alter_snapshot_log(hq, "flights", partition_columns=["seats"])
    run(hq, "UPDATE flights SET seats = 1")
    assert run(hq, 'SELECT kind FROM snaptide."mlog$_flights"') == [("T",)]


def test_ddl_for_sites_asks_to_take_it_from_the_log_first(
    partitioned: Directory,
) -> None:
    with pytest.raises(DdlRefused, match="origin is a partition column of its log"):
        masters.execute_ddl(
            partitioned["hq"], "ALTER TABLE flights RENAME COLUMN origin TO source"
        )


def test_functions_that_are_made_anew(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    with hq.transaction() as connection:
        replace_functions(connection)
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 3")
    assert looked_at(partitioned) == {"jfk": 1, "lax": 1, "sfo": 0}
    run(hq, "ALTER TABLE flights ALTER COLUMN origin TYPE text")
    with hq.transaction() as connection:
        replace_functions(connection)
    run(hq, "UPDATE flights SET origin = 'LAX' WHERE id = 6")
    assert scalar(hq, f"{LOGGED} WHERE k1 = 6") == 1
    looked_at(partitioned)


def test_the_doctor_finds_what_is_not_recorded(partitioned: Directory) -> None:
    hq = partitioned["hq"]
    assert about_flights(hq) == []
    run(hq, "ALTER TABLE flights ALTER COLUMN origin TYPE text")
    assert about_flights(hq) == [
        'snaptide log alter hq flights --partition-columns "origin"'
    ]
    masters.alter_snapshot_log(hq, "flights", partition_columns=["origin"])
    assert about_flights(hq) == []


def about_flights(hq: Site) -> list[str]:
    """What is to be done about the table's log, as the doctor says."""
    return [one.todo for one in doctor.examine(hq) if "log alter" in one.todo]
