"""Doctor names what was made after a table came to a replication group."""

import pytest

import groups
from groups.group import TargetType
from sites import Directory, Site
from snaptide import doctor
from snaptide.doctor import Finding
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, found_group, push_all
from tests.linked_table import rows, run


@prepared_once("hq", "lax", "copy")
def three(sites: Directory) -> None:
    """Two masters of two tables, one with partitions, and one that only takes."""
    for site in sites.values():
        run(
            site,
            "CREATE TABLE plain (id int PRIMARY KEY, v int)",
            "CREATE TABLE parts (id int PRIMARY KEY, qty int) PARTITION BY RANGE (id)",
            "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (50)",
        )
    found_group(sites, "hq", "lax", tables=["plain", "parts"])
    protected = TargetType.PROTECTED_READ_ONLY
    groups.add_master(sites["hq"], GROUP, "copy", target_type=protected)
    run(sites["hq"], "INSERT INTO low VALUES (1, 1)")
    push_all(sites)


def examine(site: Site) -> list[Finding]:
    """The findings; the servers of tests run with fsync off, which is one."""
    return [found for found in doctor.examine(site) if found.subject != "fsync"]


def repair(site: Site) -> None:
    """Create and turn on the triggers that doctor names, and compare nothing."""
    for found in examine(site):
        command, _, _ = found.todo.partition("; then ")
        if "TRIGGER" in command:
            run(site, *command.split("; "))


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("CREATE TABLE more (w int) INHERITS (plain)", "has a child more by"),
        (
            "CREATE RULE also AS ON INSERT TO plain DO ALSO UPDATE low SET qty = 0",
            "has a rule also",
        ),
    ],
    ids=["child", "rule"],
)
@pytest.mark.parametrize("master", ["hq", "copy"])
def test_what_a_group_would_refuse(
    three: Directory, master: str, made: str, told: str
) -> None:
    assert examine(three[master]) == []
    run(three[master], made)
    [found] = [one for one in examine(three[master]) if one.subject == "plain"]
    assert (found.severity, told in found.what) == ("error", True)


def test_new_partition_whose_changes_nobody_sees(three: Directory) -> None:
    hq = three["hq"]
    run(hq, "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (50) TO (100)")
    found = [one.what for one in examine(hq) if one.subject == "high"]
    assert any("lacks snaptide_def_insert" in what for what in found)
    assert any("snaptide_guard is missing" in what for what in found)
    run(hq, "INSERT INTO high VALUES (60, 1)")
    repair(hq)
    push_all(three)
    assert rows(hq, "parts") != rows(three["lax"], "parts")
    [told] = examine(hq)
    assert told.subject == "table parts"
    assert "a trigger of Snaptide on high was missing or off" in told.what
    run(hq, "DELETE FROM high")
    push_all(three)
    assert examine(hq) == []


@pytest.mark.parametrize(
    ("master", "part"), [("hq", "low"), ("copy", "low"), ("hq", "plain")]
)
def test_triggers_that_were_off_for_a_while(
    three: Directory, master: str, part: str
) -> None:
    site = three[master]
    run(
        site,
        f"ALTER TABLE {part} DISABLE TRIGGER ALL",
        f"INSERT INTO {part} VALUES (2, 1)",
        f"ALTER TABLE {part} ENABLE TRIGGER ALL",
    )
    repair(site)
    for _ in range(2):
        [told] = examine(site)
        assert told.severity == "warning"
        assert f"a trigger of Snaptide on {part} was missing or off" in told.what


def test_partition_without_triggers_at_a_master_that_only_takes(
    three: Directory,
) -> None:
    run(
        three["copy"],
        "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (50) TO (100)",
    )
    found = [one.what for one in examine(three["copy"]) if one.subject == "high"]
    assert any("snaptide_guard is missing" in what for what in found)
