"""Rules that decide by a stamp: whether anything sets it, and nothing sets it anew."""

import pytest
from typer.testing import CliRunner

import snapshots
from masters import rules
from masters.analysis import topology
from masters.analysis.convergence import Severity
from sites import Directory, Site
from snaptide.cli import app
from tests.fix_sites import log
from tests.fix_worker import WriteSettings
from tests.linked_table import run

STAMP = (
    "CREATE FUNCTION public.stamp() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN {guard} NEW.changed_at := now(); RETURN NEW; END $$"
)
TRIGGER = (
    "CREATE TRIGGER stamps BEFORE INSERT OR UPDATE ON public.{table}"
    " FOR EACH ROW EXECUTE FUNCTION public.stamp()"
)
GUARD = "IF current_setting('snaptide.origin', true) <> '' THEN RETURN NEW; END IF;"


@pytest.fixture
def hq(sites: Directory) -> Site:
    """A master whose rule decides by changed_at, and a site with a snapshot of it."""
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, v text, changed_at timestamptz)",
    )
    log(sites["hq"], "t")
    snapshots.create(sites["jfk"], "t", master="hq", updatable=True)
    rules.set_column_group(sites["hq"], "t", "g", ["v", "changed_at"])
    parameters = {"column": "changed_at", "tie": "site"}
    rules.add_update_resolution(
        sites["hq"], "t", "g", "latest_timestamp", parameters=parameters
    )
    return sites["hq"]


def said(hq: Site) -> list[tuple[Severity, str]]:
    return [(one.severity, one.reason.split(";")[0]) for one in topology.check_site(hq)]


def test_site_where_no_trigger_sets_the_stamp(hq: Site, jfk: Site) -> None:
    [(severity, reason)] = said(hq)
    assert severity is Severity.NOTE
    assert "no trigger at jfk sets changed_at" in reason
    run(jfk, STAMP.format(guard=""), TRIGGER.format(table='"snap$_t"'))
    assert said(hq) == []


def test_trigger_that_sets_the_stamp_anew(hq: Site, jfk: Site) -> None:
    for site, table in ((hq, "t"), (jfk, '"snap$_t"')):
        run(site, STAMP.format(guard=""), TRIGGER.format(table=table))
    [(severity, reason)] = said(hq)
    assert severity is Severity.WARNING
    assert "trigger stamps sets changed_at again when" in reason
    run(hq, STAMP.format(guard=GUARD).replace("CREATE", "CREATE OR REPLACE"))
    assert said(hq) == []


def test_who_adds_such_a_rule_is_told(
    hq: Site, sites: Directory, write_settings: WriteSettings
) -> None:
    command = "rules add hq t g earliest_timestamp -p column=changed_at"
    config = str(write_settings(sites))
    added = CliRunner().invoke(app, ["--config", config, *command.split()])
    assert added.exit_code == 0, added.output
    assert added.stderr.count("t: no trigger at jfk sets changed_at when a row") == 1
