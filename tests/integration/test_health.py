"""`snaptide health` says each breach of a limit, and nothing else."""

from __future__ import annotations

import pytest

import deferred
from sites import Directory
from snaptide.cli.failures import ExitCode
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings
from tests.linked_table import link, run


def kinds(found: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    return [(one["site"], one["kind"], one["subject"]) for one in found]


def test_nothing_is_said_if_all_is_well(sites: Directory, snaptide: Snaptide) -> None:
    link(sites)
    assert snaptide.said("health").strip() == ""
    assert snaptide.report("health") == []


def test_each_breach_is_a_line(sites: Directory, snaptide: Snaptide) -> None:
    link(sites)
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, "INSERT INTO public.orders (id) VALUES (1)")
    run(jfk, "INSERT INTO public.orders (id) VALUES (2)")
    assert snaptide.report("health", "--max-queue", "2") == []
    report = snaptide.report("health", "--max-queue", "1", code=ExitCode.ATTENTION)
    assert kinds(report) == [("jfk", "queue", "hq")]
    run(
        jfk,
        "UPDATE snaptide.deferred_transaction"
        " SET start_time = start_time - interval '10 minutes'",
    )
    said = snaptide.said("health", code=ExitCode.ATTENTION)
    assert said.strip() == "jfk lag hq: A change has waited for 10 min."
    assert snaptide.report("health", "--max-lag", "none") == []
    assert snaptide.report("health", "--max-lag", "1h") == []

    run(hq, "INSERT INTO public.orders (id) VALUES (1)")
    deferred.push(jfk)
    report = snaptide.report("health", code=ExitCode.ATTENTION)
    assert kinds(report) == [("hq", "parked", "")]
    assert snaptide.report("health", "--max-parked", "1") == []


def test_a_late_run_is_a_breach(sites: Directory, snaptide: Snaptide) -> None:
    run(
        sites["jfk"],
        "INSERT INTO snaptide.schedule (kind, subject, interval, next_at)"
        " VALUES ('push', 'hq', '10s', now() - interval '3 minutes')",
    )
    report = snaptide.report("health", code=ExitCode.ATTENTION)
    assert kinds(report) == [("jfk", "overdue", "push hq")]
    assert snaptide.report("health", "--max-overdue", "5m") == []


def test_a_site_that_is_away_ends_with_4(
    sites: Directory, write_settings: WriteSettings
) -> None:
    gone = sites["hq"].url.set(port=1, host="127.0.0.1")
    with Directory({"hq": sites["hq"].url, "gone": gone}) as some:
        report = Snaptide(write_settings(some)).report(
            "health", code=ExitCode.UNREACHABLE
        )
    assert kinds(report) == [("gone", "away", "")]


@pytest.mark.parametrize("limit", ["--max-lag", "--max-overdue"])
def test_a_limit_that_is_no_duration_is_a_mistake(
    snaptide: Snaptide, limit: str
) -> None:
    snaptide.said("health", limit, "soon", code=ExitCode.USAGE)
