"""Every row of docs/reference/statements.md holds, and every row is tried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest

import snapshots
from sites import Directory, Site
from snaptide import doctor
from tests.fix_sites import log
from tests.linked_table import run
from tests.statements import creation, definitions, page
from tests.statements import masters as at_master
from tests.statements import snapshots as at_site
from tests.statements.case import Case
from tests.stories import assert_equal_to_master, settle

AT_MASTER, AT_SITE, ALTERED, MADE_OF = page.sections()

#: Rows that need more than one statement to be tried, and where that is done.
ELSEWHERE = {
    "changes that a native subscription applies": (
        "acceptance/test_native_subscription.py"
    ),
    "changes that a native subscription applies to the base table": (
        "acceptance/test_native_subscription.py"
    ),
    "row-level security that hides rows of the base table from Snaptide's user": (
        "acceptance/test_hidden_rows.py"
    ),
    "changes by triggers of your own during a refresh, or a push that comes here": (
        "integration/test_effects.py"
    ),
    "ON DELETE and ON UPDATE actions during a refresh": "integration/test_effects.py",
    "row-level security that hides rows of a master table from Snaptide's user": (
        "acceptance/test_hidden_rows.py"
    ),
    "a table whose rows row-level security hides from Snaptide's user": (
        "acceptance/test_hidden_rows.py"
    ),
    # Users of a site see them at work when they delete a parent.
    "foreign keys between snapshots of one group": "acceptance/test_statements.py",
}

_numbers = itertools.count()


def test_every_row_has_its_test() -> None:
    tried = {
        AT_MASTER: {*at_master.CASES, "a trigger of Snaptide's disabled or dropped"},
        AT_SITE: set(at_site.CASES),
        ALTERED: {*definitions.CASES, *definitions.AT_MASTER, *definitions.AT_SITE}
        - {"a trigger of Snaptide's disabled or dropped"},
        MADE_OF: set(creation.CASES),
    }
    for title, documented in page.sections().items():
        assert tried[title] == documented.keys() - ELSEWHERE.keys(), title
        for statement, outcome in documented.items():
            assert outcome.startswith(page.OUTCOMES), statement
    folder = page.PAGE.parents[2] / "tests"
    assert all((folder / name).exists() for name in ELSEWHERE.values())


def filled(text: str, table: str) -> list[str]:
    made = text.replace("{t}", table).replace("{base}", f'"snap$_{table}"')
    return [one.strip() for one in made.split(";;") if one.strip()]


def play(site: Site, text: str, table: str) -> None:
    run(site, *filled(text, table))


def act(case: Case, site: Site, table: str) -> None:
    if isinstance(case.act, str):
        play(site, case.act, table)
    else:
        case.act(site, table)


def cases(of: dict[str, Case], version: int) -> Iterator[tuple[str, Case]]:
    for statement, first in of.items():
        for case in (first, *first.more):
            if case.since <= version:
                yield statement, case


def make(hq: Site, jfk: Site, table: str, case: Case, group: str) -> None:
    """A master table with its log, and a snapshot of it."""
    play(hq, f"{case.table};; {case.rows}", table)
    for name in (table, *(other.replace("{t}", table) for other in case.others)):
        log(hq, name, with_rowid=case.with_rowid)
        snapshots.create(
            jfk,
            name,
            master="hq",
            group=group,
            updatable=case.updatable,
            where=case.condition,
            columns=case.columns and (*case.columns, *_rowid(case)),
        )


def _rowid(case: Case) -> tuple[str, ...]:
    return ("snaptide_rowid",) if case.with_rowid else ()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("title", "at", "of"),
    [
        (AT_MASTER, "hq", at_master.CASES),
        (AT_SITE, "jfk", at_site.CASES),
        (ALTERED, "hq", definitions.CASES),
    ],
    ids=["at the master", "at the site", "altered"],
)
def test_rows_are_captured_or_refused(
    sites: Directory, pg_version: int, title: str, at: str, of: dict[str, Case]
) -> None:
    """All statements of a side at once, each on a table of its own; one refresh."""
    hq, jfk, where = sites["hq"], sites["jfk"], sites[at]
    found: list[tuple[str, Case, str]] = []
    for statement, case in cases(of, pg_version):
        table = f"t{next(_numbers)}"
        make(hq, jfk, table, case, "all")
        outcome = page.sections()[title][statement]
        assert case.refused or "captured" in outcome, statement
        assert not case.refused or "refused" in outcome, statement
        found.append((statement, case, table))
    snapshots.refresh(jfk, "all", push_deferred_rpc=False)
    for _, case, table in found:
        play(jfk, case.prepare, table)
    for statement, case, table in found:
        if case.refused:
            with pytest.raises(psycopg.Error, match=case.refused):
                act(case, where, table)
        else:
            act(case, where, table)
            assert _changed(hq, jfk, table) or "nothing" in statement, statement
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(hq, "SELECT * FROM snaptide.deferror") == []


def _changed(hq: Site, jfk: Site, table: str) -> bool:
    """Whether a statement did something at all."""
    texts = f"SELECT t::text FROM public.{table} t ORDER BY 1"
    return run(hq, texts) != run(jfk, texts)


@pytest.mark.usefixtures("spark")
def test_rows_are_found_by_doctor(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    made: list[tuple[str, Site, Case, str]] = []
    for of, where in ((definitions.AT_MASTER, hq), (definitions.AT_SITE, jfk)):
        for statement, tried in of.items():
            for case in tried:
                table = f"t{next(_numbers)}"
                if "TYPE" in case.table:
                    play(jfk, case.table.split(";;")[0], table)
                if where is jfk:
                    make(hq, jfk, table, case, "all")
                else:
                    play(hq, f"{case.table};; {case.rows}", table)
                    log(hq, table)
                made.append((statement, where, case, table))
    snapshots.refresh(jfk, "all")
    for _, _, case, table in made:
        play(jfk, case.prepare, table)
        act(case, hq, table)
    for where in (hq, jfk):
        subjects = {finding.subject for finding in doctor.examine(where)}
        for statement, site, _, table in made:
            if site is where:
                names = {table, f"{table}_new", f"snap$_{table}"}
                assert names & subjects, (statement, subjects)


def test_what_a_snapshot_can_be_made_of(sites: Directory, pg_version: int) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    play(hq, "CREATE EXTENSION vector;; CREATE TABLE x (v vector)", "")
    play(jfk, "CREATE EXTENSION vector", "")
    for statement, tried in creation.CASES.items():
        outcome = page.sections()[MADE_OF][statement]
        for case in tried:
            table = f"t{next(_numbers)}"
            if case.since > pg_version:
                continue
            if case.refused is not None:
                assert "refused" in outcome, statement
                with pytest.raises(case.refused) as refusal:
                    case.run(hq, jfk, table)
                assert refusal.value.hint, statement
                continue
            made = case.run(hq, jfk, table)
            assert any(case.left_out in reason for reason in made.left_out) or (
                not case.left_out
            ), (statement, made.left_out)
        refusals = [case.refused is not None for case in tried]
        assert any(refusals) or not outcome.startswith("refused"), statement
        assert not all(refusals) or outcome.startswith("refused"), statement
