"""A rule by a column whose type its method cannot use is refused when it is made."""

from __future__ import annotations

from typing import Any

import pytest

from masters import rules
from masters.errors import RuleError, WrongColumnType
from masters.rules import rulebook
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.linked_table import run

COLUMNS = """
    id int PRIMARY KEY,
    amount numeric(10,2),
    share rate,
    label varchar(20) UNIQUE,
    code char(3),
    number bigint UNIQUE,
    at timestamp(3) with time zone,
    day date,
    hour time,
    mood mood,
    yes boolean,
    who uuid UNIQUE,
    raw bytea,
    document jsonb,
    labels text[],
    span int4range,
    host inet
"""

NUMBERS = ["amount", "share", "number"]
MOMENTS = ["at", "day"]
LABELS = ["label", "code", "mood"]
#: by update method, the columns that it takes
TAKEN = {
    "additive": NUMBERS,
    "average": NUMBERS,
    "latest_timestamp": MOMENTS,
    "earliest_timestamp": MOMENTS,
    "informix_timestamp": MOMENTS,
    "informix_delete_wins": MOMENTS,
    "maximum": [*NUMBERS, *MOMENTS, *LABELS, "hour", "yes", "who", "raw"],
    "minimum": [*NUMBERS, *MOMENTS, *LABELS, "hour", "yes", "who", "raw"],
    "priority_group": [*NUMBERS, *MOMENTS, *LABELS, "yes", "who"],
    "site_priority": LABELS,
    "overwrite": [line.split()[0] for line in COLUMNS.strip().splitlines()[1:]],
}
ALONE = ("additive", "average", "overwrite")
RANKED = ("priority_group", "site_priority")


@prepared_once("hq")
def sites(sites: Directory) -> None:
    run(
        sites["hq"],
        "CREATE DOMAIN rate AS real CHECK (VALUE >= 0)",
        "CREATE TYPE mood AS ENUM ('good', 'bad')",
        f"CREATE TABLE t ({COLUMNS})",
    )
    for line in COLUMNS.strip().splitlines()[1:]:
        rules.set_column_group(sites["hq"], "t", (name := line.split()[0]), [name])


def _parameters(method: str, column: str) -> dict[str, Any]:
    found: dict[str, Any] = {} if method in ALONE else {"column": column}
    return found | ({"priorities": {"a": 1}} if method in RANKED else {})


@pytest.mark.parametrize("method", TAKEN)
def test_an_update_method_takes_columns_of_its_types(hq: Site, method: str) -> None:
    for column in TAKEN["overwrite"]:
        given = _parameters(method, column)
        if column in TAKEN[method]:
            rules.add_update_resolution(hq, "t", column, method, parameters=given)
            continue
        with pytest.raises(WrongColumnType, match=f"{method}: column {column} of t is"):
            rules.add_update_resolution(hq, "t", column, method, parameters=given)


@pytest.mark.parametrize("method", ["informix_timestamp", "informix_delete_wins"])
def test_a_rule_decides_by_a_column_of_its_group(hq: Site, method: str) -> None:
    """Of a conflict in a group, it would be shown no other column."""
    with pytest.raises(RuleError, match="'at' is not a column"):
        rules.add_update_resolution(
            hq, "t", "amount", method, parameters={"column": "at"}
        )


@pytest.mark.parametrize("method", ["append_sequence", "append_site_name"])
def test_what_is_appended_goes_behind_a_text(hq: Site, method: str) -> None:
    rules.add_unique_resolution(
        hq, "t", "t_label_key", method, parameters={"column": "label"}
    )
    for column in ("number", "who"):
        with pytest.raises(WrongColumnType, match="must be a text"):
            rules.add_unique_resolution(
                hq, "t", f"t_{column}_key", method, parameters={"column": column}
            )


def test_a_file_of_rules_is_held_to_it_too(hq: Site) -> None:
    rule = {"group": "label", "method": "average"}
    with pytest.raises(WrongColumnType, match="is character varying"):
        rulebook.diff(
            hq, {"tables": {"t": {"groups": {"label": ["label"]}, "update": [rule]}}}
        )
