"""`snaptide group check`: what it prints, and what it ends with."""

import json
from collections.abc import Callable
from functools import partial

import pytest
from typer.testing import Result

from sites import Directory
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, without
from tests.linked_table import run
from tests.three_masters import make_masters, unseen

pytestmark = pytest.mark.usefixtures("spark")

Call = Callable[..., Result]


@prepared_once("hq", "lax", "bos")
def sites(sites: Directory) -> None:
    make_masters(sites)


def caller(sites: Directory, write_settings: WriteSettings) -> Call:
    return partial(Snaptide(write_settings(sites)), "group", "check", "hq", GROUP)


def test_it_says_what_differs_and_ends_with_it(
    sites: Directory,
    write_settings: WriteSettings,
) -> None:
    check = caller(sites, write_settings)
    done = check()
    assert (done.exit_code, "Equal." in done.stdout) == (0, True), done.output
    run(sites["hq"], "UPDATE orders SET qty = 0 WHERE id = 1")
    done = check("orders")
    assert done.exit_code == 0, done.output
    assert "All differences are explained." in done.stdout
    unseen(sites["bos"], "UPDATE orders SET name = '[bold]x' WHERE id = 2")
    done = check("orders")
    assert done.exit_code == 1
    assert "hq, lax: name: n2" in done.stdout
    assert "bos: name: [bold]x" in done.stdout
    assert "1 row differs without a reason." in done.stdout
    assert check("--where", "id <> 2").exit_code == 0
    assert check("orders", "--columns", "qty, price").exit_code == 0
    [orders, _] = json.loads(check("--json", "--max", "1").stdout)["tables"]
    assert [row["reason"] for row in orders["differences"]] == ["unexplained"]
    assert {one["reason"]: one["rows"] for one in orders["counts"]} == {
        "unexplained": 1,
        "in flight": 1,
    }


def test_a_master_that_is_away_is_said(
    sites: Directory,
    write_settings: WriteSettings,
) -> None:
    with without(sites, "bos") as left:
        check = caller(left, write_settings)
        done = check()
        assert (done.exit_code, "bos left out:" in done.stdout) == (4, True)
        assert "Equal." in done.stdout
        unseen(sites["lax"], "DELETE FROM orders WHERE id = 7")
        assert check().exit_code == 1


@pytest.mark.parametrize(
    "wrong", [("nix",), ("--columns", "nix"), ("--where", "nix =")]
)
def test_wrong_input(
    sites: Directory,
    write_settings: WriteSettings,
    wrong: tuple[str, ...],
) -> None:
    done = caller(sites, write_settings)(*wrong)
    assert (done.exit_code, "SNP-" in done.stderr) == (1, True)
