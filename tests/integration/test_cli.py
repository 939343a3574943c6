"""The command line against real databases: what it prints, and what it ends with."""

from __future__ import annotations

import json
import os
import pty
import secrets
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

import deferred
from sites import Directory
from snaptide.cli import app
from tests.fix_commands import Snaptide
from tests.fix_db import MakeDatabase
from tests.fix_sites import unarmed
from tests.fix_worker import WriteSettings
from tests.linked_table import application, link, run, scalar

# --- sites -------------------------------------------------------------------


def test_init_check_and_downgrade(
    make_database: MakeDatabase, write_settings: WriteSettings
) -> None:
    directory = Directory({"hq": make_database(), "jfk": make_database()})
    snaptide = Snaptide(write_settings(directory))
    assert {f["subject"] for f in snaptide.report("site", "check", code=3)} == {
        "schema"
    }
    made = snaptide.report("site", "init", "hq", "jfk")
    assert [one["before"] for one in made] == [None, None]
    assert made[0]["now"] == made[1]["now"] != None  # noqa: E711
    # The servers of tests run with fsync off, and are told so.
    assert {f["subject"] for f in snaptide.report("site", "check", code=3)} == {"fsync"}
    again = snaptide.report("site", "init", "hq")
    assert again[0]["before"] == again[0]["now"]
    gone = snaptide.report("site", "downgrade", "jfk", "base")
    assert gone["now"] is None
    assert snaptide.report("site", "check", "jfk", code=3)[0]["severity"] == "fatal"


def test_a_restored_site_is_said_and_repaired(
    snaptide: Snaptide, sites: Directory
) -> None:
    link(sites)
    run(sites["jfk"], "INSERT INTO public.orders (id) VALUES (1)")
    run(sites["jfk"], "UPDATE snaptide.site_identity SET database_oid = 1")
    [found] = [
        finding
        for finding in snaptide.report("site", "check", "jfk", code=3)
        if finding["subject"] == "identity"
    ]
    assert "snaptide site check jfk --repair" in found["todo"]
    assert "SNP-404" in snaptide("site", "check", "--repair").output
    [repaired] = snaptide.report("site", "check", "jfk", "--repair")
    assert repaired["repaired"]
    assert repaired["reasons"] == [found["what"]]
    assert repaired["transactions"] == 1
    again = snaptide("site", "check", "jfk", "--repair")
    assert "nothing to repair" in again.output
    [pushed] = snaptide.report("push", "jfk")
    assert pushed["transactions"] == 1
    assert scalar(sites["hq"], "SELECT count(*) FROM public.orders") == 1


def test_sites_are_listed_without_passwords(
    snaptide: Snaptide, sites: Directory
) -> None:
    listed = snaptide("site", "list")
    assert "hq" in listed.output
    assert "jfk" in listed.output
    assert str(sites["hq"].url.password) not in listed.output


# --- errors ------------------------------------------------------------------


def test_an_error_is_told_and_not_traced(snaptide: Snaptide) -> None:
    result = snaptide("log", "list", "nowhere")
    assert result.exit_code == 1
    assert "SNP-001" in result.stderr
    assert "known: hq, jfk" in result.stderr
    assert "hint" in result.stderr
    assert "Traceback" not in result.output


def test_an_error_as_json(snaptide: Snaptide) -> None:
    result = snaptide("log", "drop", "hq", "nothing", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stderr)["error"]["code"] == "SNP-101"
    assert result.stdout == ""


def test_debug_shows_where_it_comes_from(snaptide: Snaptide) -> None:
    result = snaptide("--debug", "log", "list", "nowhere")
    assert type(result.exception).__name__ == "UnknownSite"


def test_no_settings() -> None:
    result = CliRunner().invoke(app, ["--config", "/no/such/file", "site", "list"])
    assert result.exit_code == 1
    assert "SNP-011" in result.stderr


def test_the_command_line_is_wrong(snaptide: Snaptide) -> None:
    assert snaptide("dance").exit_code == 2
    assert snaptide("push").exit_code == 2


def test_a_site_that_is_away(sites: Directory, write_settings: WriteSettings) -> None:
    away = Directory({"hq": sites["hq"].url, "jfk": sites["jfk"].url.set(port=1)})
    snaptide = Snaptide(write_settings(away))
    for command in (("push", "jfk"), ("status",), ("doctor",), ("site", "check")):
        result = snaptide(*command)
        assert result.exit_code == 4, result.output
        assert "cannot be reached" in result.output


def test_a_wrong_password_is_never_printed(
    sites: Directory, write_settings: WriteSettings
) -> None:
    wrong = sites["jfk"].url.set(password="xyzzy-secret")
    away = Directory({"hq": sites["hq"].url, "jfk": wrong})
    snaptide = Snaptide(write_settings(away))
    for command in (("push", "jfk"), ("status",), ("doctor", "--json")):
        result = snaptide(*command)
        assert result.exit_code == 4, result.output
        assert "password authentication failed" in result.output
        assert "xyzzy" not in result.output


def test_a_site_that_refuses_to_be_looked_at_hides_no_other(
    sites: Directory, write_settings: WriteSettings
) -> None:
    """Here the rights on our schema are somebody else's."""
    stranger = f"stranger_{secrets.token_hex(4)}"
    run(sites["hq"], f"CREATE ROLE {stranger} LOGIN PASSWORD 'x'")
    url = sites["jfk"].url.set(username=stranger, password="x")
    away = Directory({"hq": sites["hq"].url, "jfk": url})
    snaptide = Snaptide(write_settings(away))
    run(
        sites["hq"],
        "INSERT INTO snaptide.peer (site_id, role, name, incarnation)"
        " VALUES (gen_random_uuid(), 'site', 'jfk', gen_random_uuid())",
    )
    try:
        hq, jfk = snaptide.report("status", code=3)
        assert (hq["site"], hq["reachable"], hq["error"]) == ("hq", True, None)
        assert hq["revision"] == hq["head"]
        assert (jfk["site"], jfk["reachable"]) == ("jfk", True)
        assert "permission denied for" in jfk["error"]
        for command in (("doctor",), ("site", "check")):
            found = snaptide.report(*command, code=3)
            subjects = {(one["site"], one["subject"]) for one in found}
            assert {("hq", "fsync"), ("jfk", "SNP-406")} <= subjects, command
    finally:
        run(sites["hq"], f"DROP ROLE {stranger}")


def test_no_broker_to_enqueue_at(snaptide: Snaptide) -> None:
    result = snaptide("push", "jfk", "--enqueue")
    assert result.exit_code == 4
    assert "SNP-402" in result.stderr


# --- help --------------------------------------------------------------------


def commands(group: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not hasattr(group, "commands"):
        return [path]
    loaded = getattr(group, "loaded", None)
    inner = loaded() if loaded else group.commands
    return [found for name, c in inner.items() for found in commands(c, (*path, name))]


def test_every_command_has_help_with_an_example() -> None:
    from typer.main import get_command

    found = commands(get_command(app))
    assert len(found) > 25
    for path in found:
        result = CliRunner().invoke(app, [*path, "--help"])
        assert result.exit_code == 0, path
        assert f"Example: snaptide {' '.join(path)}" in result.output, path


def test_help_has_lines_as_long_as_the_terminal() -> None:
    wide = {"COLUMNS": "200"}
    result = CliRunner().invoke(app, ["refresh", "--help"], env=wide)
    assert "because it has Spark ready; Ctrl-C then ends only the waiting." in (
        result.output
    )


def test_help_and_version() -> None:
    assert "Exit status: 0" in CliRunner().invoke(app, ["--help"]).output
    assert CliRunner().invoke(app, ["--version"]).output.startswith("snaptide ")


def test_site_names_complete(sites: Directory, write_settings: WriteSettings) -> None:
    config = str(write_settings(sites))
    environment = {
        "_SNAPTIDE_COMPLETE": "complete_bash",
        "COMP_WORDS": "snaptide push j",
        "COMP_CWORD": "2",
        "SNAPTIDE_CONFIG": config,
    }
    result = CliRunner().invoke(app, [], env=environment, prog_name="snaptide")
    assert result.output.split() == ["jfk"]


# --- logs, snapshots, rules, schedules ---------------------------------------


@pytest.fixture
def seats(sites: Directory) -> Directory:
    run(
        sites["hq"],
        "CREATE TABLE public.seats (id int PRIMARY KEY, free int, note text)",
        "INSERT INTO public.seats SELECT i, 100, 'n' FROM generate_series(1, 9) i",
    )
    return sites


def test_logs(snaptide: Snaptide, seats: Directory) -> None:
    made = snaptide.report("log", "create", "hq", "seats")
    assert made["identity_columns"] == ["id"]
    assert "seats" in snaptide("log", "list", "hq").output
    assert snaptide.report("log", "purge", "hq")[0]["table"] == "seats"
    assert snaptide.report("log", "drop", "hq", "seats")
    assert snaptide.report("log", "list", "hq") == []


def test_what_a_superuser_runs_for_new_partitions(
    snaptide: Snaptide, seats: Directory
) -> None:
    hq = seats["hq"]
    snaptide.report("log", "create", "hq", "seats")
    unarmed(hq)
    with application(hq) as superuser:
        superuser.autocommit = True
        superuser.execute(snaptide("log", "repair", "hq", "--print").output)
    assert snaptide.report("log", "list", "hq")[0]["arms_parts"]
    unarmed(hq)
    assert "seats" in snaptide("log", "repair", "hq").output
    assert snaptide.report("log", "repair", "hq", "seats")[0]["parts"] == []
    assert snaptide.report("log", "list", "hq")[0]["arms_parts"]


def test_rules(snaptide: Snaptide, seats: Directory) -> None:
    assert snaptide("rules", "group", "hq", "seats", "count", "free").exit_code == 0
    assert "none yet" in snaptide("rules", "list", "hq").output
    added = snaptide("rules", "add", "hq", "seats", "count", "additive")
    assert "additive" in added.output
    wrong = snaptide("rules", "add", "hq", "seats", "count", "magic")
    assert wrong.exit_code == 1
    assert "the methods are" in wrong.stderr
    removed = snaptide.report("rules", "remove", "hq", "seats", "count", "1")
    assert removed[0]["rules"] == []


def test_schedules(snaptide: Snaptide, sites: Directory) -> None:
    link(sites)
    made = snaptide.report(
        *("schedule", "set", "jfk", "push", "hq"),
        *("--every", "10s", "-o", "transaction-count=5"),
    )
    assert made[0]["options"] == {"transaction_count": 5}
    assert "10s" in snaptide("schedule", "list", "jfk").output
    paused = snaptide.report("schedule", "disable", "jfk", "push", "hq")
    assert paused[0]["disabled"] is True
    assert snaptide("schedule", "enable", "jfk", "push", "hq").exit_code == 0
    assert snaptide.report("schedule", "remove", "jfk", "push", "hq") == []
    wrong = snaptide("schedule", "set", "jfk", "refresh", "seats", "--every", "1h")
    assert wrong.exit_code == 1
    assert "This site has no refresh group 'seats'" in wrong.stderr
    no = ("--every", "1h", "-o", "allow_mass_delete=never")
    wrong = snaptide("schedule", "set", "jfk", "refresh", "seats", *no)
    assert wrong.exit_code == 2
    assert "allow_mass_delete must be true or false." in wrong.stderr
    wrong = snaptide("schedule", "set", "jfk", "push", "hq", "--every", "soon")
    assert wrong.exit_code == 2
    assert "SNP-340" in wrong.stderr


# --- the main job ------------------------------------------------------------


@pytest.fixture
def flying(snaptide: Snaptide, seats: Directory, spark: object) -> Directory:
    """A loaded updatable snapshot at jfk, made by commands."""
    for command in (
        ("log", "create", "hq", "seats"),
        ("snapshot", "create", "jfk", "seats", "--master", "hq", "--updatable"),
        ("refresh", "jfk", "seats"),
    ):
        result = snaptide(*command)
        assert result.exit_code == 0, result.output
    return seats


def test_a_change_goes_to_the_master_and_comes_back(
    snaptide: Snaptide, flying: Directory
) -> None:
    run(flying["jfk"], "UPDATE public.seats SET free = 7 WHERE id = 1")
    run(flying["hq"], "UPDATE public.seats SET free = 8 WHERE id = 2")
    before = snaptide.report("status", "jfk")[0]
    assert before["backlog"][0]["transactions"] == 1
    assert before["groups"][0]["lag"] == {"rows": 1, "transactions": 1}
    listed = snaptide.report("snapshot", "list", "jfk")
    assert listed[0]["undelivered_calls"] == 1
    pushed = snaptide.report("push", "jfk")
    assert (pushed[0]["transactions"], pushed[0]["errors"]) == (1, 0)
    assert scalar(flying["hq"], "SELECT free FROM public.seats WHERE id = 1") == 7
    refreshed = snaptide.report("refresh", "jfk", "seats", "--no-push")
    assert refreshed["snapshots"][0]["updated"] == 1
    after = snaptide.report("status", "jfk")[0]
    assert after["backlog"][0]["transactions"] == 0
    assert after["groups"][0]["lag"]["rows"] == 0
    assert snaptide.report("purge", "jfk")["queue"]
    screen = snaptide("status")
    assert screen.exit_code == 0
    assert "jfk -> hq" in screen.output
    assert "jfk <- hq" in screen.output


def test_a_conflict_is_shown_and_retried_as_edited(
    snaptide: Snaptide, flying: Directory
) -> None:
    run(flying["jfk"], "UPDATE public.seats SET free = 7 WHERE id = 1")
    run(flying["hq"], "UPDATE public.seats SET free = 8 WHERE id = 1")
    pushed = snaptide.report("push", "jfk", code=3)
    number = str(pushed[0]["error_ids"][0])
    assert snaptide.report("errors", "list", "hq", code=3)[0]["origin"] == "jfk"
    shown = snaptide("errors", "show", "hq", number)
    assert "update seats" in shown.output
    for value in ("100", "7", "8"):
        assert value in shown.output
    assert snaptide("status", "hq").exit_code == 3
    assert snaptide("errors", "retry", "hq", number).exit_code == 3
    assert snaptide("errors", "retry", "hq").exit_code == 2
    edit = ("--edit", "seats.free=15", "--null", "seats.note")
    retried = snaptide.report("errors", "retry", "hq", number, *edit)
    assert retried[0]["applied"] is True
    row = "SELECT concat(free, note IS NULL) FROM public.seats WHERE id = 1"
    assert scalar(flying["hq"], row) == "15t"
    assert snaptide.report("errors", "list", "hq") == []


def test_a_procedure_is_allowed_and_its_failure_shown(
    snaptide: Snaptide, sites: Directory
) -> None:
    link(sites)
    run(
        sites["hq"],
        "CREATE PROCEDURE public.divide(by int) LANGUAGE sql AS"
        " 'UPDATE public.orders SET qty = qty / by'",
        "INSERT INTO public.orders VALUES (1, 'n', 8)",
    )
    assert "SNP-318" in snaptide("procedure", "allow", "hq", "nothing").output
    assert snaptide.report("procedure", "allow", "hq", "divide")["present"]
    [allowed] = snaptide.report("procedure", "list", "hq")["allowed"]
    assert allowed["name"] == "divide"
    with sites["jfk"].begin() as connection:
        deferred.call(connection, "divide", [0])
    assert snaptide.report("push", "jfk", code=3)[0]["errors"] == 1
    [error] = snaptide.report("errors", "list", "hq", code=3)
    shown = snaptide("errors", "show", "hq", str(error["id"])).output
    assert "procedure divide" in shown
    assert "division by zero" in shown
    [call] = snaptide.report("errors", "show", "hq", str(error["id"]))["procedures"]
    edit = f"{call['call_no']}.1=4"
    retried = snaptide("errors", "retry", "hq", str(error["id"]), "--edit", edit)
    assert retried.exit_code == 0, retried.output
    assert scalar(sites["hq"], "SELECT qty FROM public.orders") == 2
    revoked = snaptide.report("procedure", "revoke", "hq", "divide")
    assert revoked["was_allowed"]
    assert "divide" not in snaptide("procedure", "list", "hq").output


def test_a_long_error_is_shown_page_by_page(
    snaptide: Snaptide, sites: Directory
) -> None:
    link(sites, columns="id int PRIMARY KEY, qty int")
    run(
        sites["hq"],
        "INSERT INTO public.orders SELECT g, 1 FROM generate_series(1, 3) g",
    )
    run(sites["jfk"], "INSERT INTO public.orders SELECT g FROM generate_series(1, 3) g")
    number = str(snaptide.report("push", "jfk", code=3)[0]["error_ids"][0])
    show = ("errors", "show", "hq", number, "--limit", "2")
    first = snaptide.report(*show)
    assert (first["call_count"], len(first["calls"])) == (3, 2)
    after = ("--after", str(first["next_after"]))
    assert " ".join(after) in snaptide(*show).output
    second = snaptide.report(*show, *after)
    assert len(second["calls"]) == 1
    assert second["next_after"] is None
    assert "--after" not in snaptide(*show, *after).output


def test_a_destination_beyond_its_budget_is_said_and_made_valid(
    snaptide: Snaptide, sites: Directory
) -> None:
    link(sites, columns="id int PRIMARY KEY, qty int")
    run(sites["jfk"], "INSERT INTO public.orders VALUES (1, 1)")
    budget = ("destination", "budget", "jfk", "hq")
    for wrong in (
        ("--age", "soon"),
        ("--age", "0 6 * * *"),
        ("--age", "99999999999d"),
        ("--size", "1XB"),
        ("--size", "99999999999TB"),
    ):
        refused = snaptide(*budget, *wrong)
        assert refused.exit_code == 2
        assert "--debug" not in refused.stderr
    limited = snaptide.report(*budget, "--age", "7d", "--size", "1B")
    assert (limited["max_lag_age"], limited["max_lag_bytes"]) == (7 * 86400.0, 1)
    assert snaptide("destination", "list", "jfk").exit_code == 0
    refused = snaptide("push", "jfk")
    assert refused.exit_code == 1
    assert "SNP-309" in refused.stderr
    listed = snaptide.report("destination", "list", "jfk", code=3)
    [invalid] = listed[0]["states"]
    assert invalid["state"] == "invalid"
    assert invalid["reason"].endswith("the limit is 1.")
    for command in (("destination", "list", "jfk"), ("status", "jfk")):
        shown = snaptide(*command)
        assert shown.exit_code == 3
        assert "invalid: " in shown.output
    assert "destination validate jfk hq" in snaptide("doctor", "jfk").output
    assert snaptide("destination", "validate", "jfk", "hq").exit_code == 0
    assert snaptide.report("push", "jfk")[0]["transactions"] == 1


def test_errors_are_deleted_only_when_named_and_asked_for(
    snaptide: Snaptide, flying: Directory
) -> None:
    run(flying["jfk"], "UPDATE public.seats SET free = 7 WHERE id = 1")
    run(flying["hq"], "DELETE FROM public.seats WHERE id = 1")
    pushed = snaptide.report("push", "jfk", code=3)
    number = str(pushed[0]["error_ids"][0])
    assert snaptide("errors", "delete", "hq", "--yes").exit_code == 2
    for which in (number, "--all", "--origin=jfk"):
        refused = snaptide("errors", "delete", "hq", which)
        assert refused.exit_code == 2
        assert "Delete 1 parked transactions at hq for good (1 of jfk)?" in (
            refused.stderr
        )
        assert "--yes" in refused.stderr
    assert len(snaptide.report("errors", "list", "hq", code=3)) == 1
    # Nothing to ask for.
    assert snaptide("errors", "delete", "hq", "--origin", "lga").exit_code == 0
    deleted = snaptide.report("errors", "delete", "hq", "--all", "--yes")
    assert deleted["deleted"] == 1


def test_who_sits_at_a_terminal_is_asked(
    flying: Directory, snaptide: Snaptide, write_settings: WriteSettings
) -> None:
    run(flying["jfk"], "UPDATE public.seats SET free = 7 WHERE id = 1")
    run(flying["hq"], "DELETE FROM public.seats WHERE id = 1")
    assert snaptide("push", "jfk").exit_code == 3
    config = str(write_settings(flying))
    assert _answered("n\n", "--config", config, "errors", "delete", "hq", "--all") == 1
    assert len(snaptide.report("errors", "list", "hq", code=3)) == 1
    assert _answered("y\n", "--config", config, "errors", "delete", "hq", "--all") == 0
    assert snaptide.report("errors", "list", "hq") == []


def _answered(answer: str, *arguments: str) -> int:
    """What the program ends with for somebody at a terminal who answers."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer.encode())
        return subprocess.run(
            [sys.executable, "-m", "snaptide", *arguments],
            stdin=theirs,
            capture_output=True,
            check=False,
            timeout=120,
        ).returncode
    finally:
        os.close(ours)
        os.close(theirs)


def test_pushes_are_paused(snaptide: Snaptide, flying: Directory) -> None:
    paused = snaptide.report("push", "jfk", "hq", "--disable")
    assert [one["state"] for one in paused["states"]] == ["disabled"]
    assert "SNP-303" in snaptide("push", "jfk", "hq").stderr
    assert "disabled: by hand" in snaptide("status", "jfk").output
    enabled = snaptide.report("push", "jfk", "hq", "--enable")
    assert enabled["states"] == []
    assert snaptide("push", "jfk", "hq").exit_code == 0
    assert snaptide("push", "jfk", "lga", "--enable").exit_code == 1
    assert snaptide("push", "jfk", "--enable").exit_code == 2


def test_a_snapshot_that_is_gone_is_forgotten(
    snaptide: Snaptide, flying: Directory
) -> None:
    run(flying["jfk"], "UPDATE snaptide.snapshot SET name = 'other'")
    hint = snaptide.report("doctor", "hq", code=3)[-1]["todo"]
    assert hint == "snaptide log unregister hq jfk seats"
    assert snaptide(*hint.split()[1:]).exit_code == 0
    assert snaptide(*hint.split()[1:]).exit_code == 1
    assert snaptide.report("log", "list", "hq")[0]["snapshots"] == []


def test_a_master_that_is_lost_for_good_is_told_no_more(
    snaptide: Snaptide, flying: Directory
) -> None:
    """That a snapshot has switched to another one."""
    run(
        flying["jfk"],
        "INSERT INTO snaptide.former_master (master_id, snapshot, master)"
        " VALUES (gen_random_uuid(), 'seats', 'hq')",
    )
    found = snaptide.report("doctor", "jfk", code=3)
    [todo] = [one["todo"] for one in found if one["subject"] == "hq:seats"]
    command = todo.rpartition("snaptide ")[2].split()
    assert command == ["log", "unregister", "hq", "jfk", "seats", "--lost"]
    assert snaptide(*command).exit_code == 0
    told = snaptide(*command)
    assert told.exit_code == 1
    assert "Site jfk has nothing to tell hq of seats." in told.output
    assert snaptide.report("log", "list", "hq")[0]["snapshots"] != []
    left = [one["subject"] for one in snaptide.report("doctor", "jfk", code=3)]
    assert "hq:seats" not in left


def test_names_with_commas_are_taken_as_quoted(
    snaptide: Snaptide, sites: Directory
) -> None:
    run(
        sites["hq"],
        'CREATE TABLE public."t,u" (id int PRIMARY KEY, "a,b" int, "c ""d""" int)',
        "CREATE TABLE public.w (id int PRIMARY KEY)",
        'INSERT INTO public."t,u" VALUES (1, 2, 3)',
    )
    columns = 'id, "a,b","c ""d"""'
    of = ("--master", "hq", "--group", "g,h")
    for command in (
        ("log", "create", "hq", "t,u"),
        ("log", "create", "hq", "w"),
        ("snapshot", "create", "jfk", "w", *of),
        ("snapshot", "create", "jfk", "t,u", *of, "--columns", columns),
        ("refresh", "jfk", '"t,u",w'),
        ("refresh", "jfk", "g,h"),
        ("refresh", "jfk", '"t,u"', "--method", "c"),
    ):
        result = snaptide(*command)
        assert result.exit_code == 0, result.output
    assert scalar(sites["jfk"], 'SELECT "a,b" FROM public."t,u"') == 2


def test_drop(snaptide: Snaptide, flying: Directory) -> None:
    assert snaptide("snapshot", "show", "jfk", "seats").exit_code == 0
    run(flying["jfk"], "UPDATE public.seats SET free = 7 WHERE id = 1")
    assert snaptide("snapshot", "drop", "jfk", "seats").exit_code == 1
    assert snaptide("snapshot", "drop", "jfk", "seats", "--force").exit_code == 0
    assert snaptide.report("snapshot", "list", "jfk") == []
