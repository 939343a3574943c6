"""`snaptide group rectify`: what it prints, and what it ends with."""

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
from tests.linked_table import run, scalar
from tests.three_masters import make_masters, unseen

pytestmark = pytest.mark.usefixtures("spark")

Call = Callable[..., Result]


@prepared_once("hq", "lax", "bos")
def sites(sites: Directory) -> None:
    make_masters(sites)


def caller(sites: Directory, write_settings: WriteSettings) -> Call:
    return partial(Snaptide(write_settings(sites)), "group", "rectify", "bos", GROUP)


def test_it_shows_what_it_would_do_and_does_it(
    sites: Directory, write_settings: WriteSettings
) -> None:
    rectify = caller(sites, write_settings)
    unseen(sites["lax"], "UPDATE orders SET name = '[bold]x' WHERE id = 2")
    unseen(sites["bos"], "DELETE FROM orders WHERE id = 3")
    run(sites["hq"], "UPDATE orders SET qty = 0 WHERE id = 1")
    done = rectify("--reference", "hq", "--dry-run")
    assert done.exit_code == 3, done.output
    assert "2 rows would be mended." in done.stdout
    assert "name: [bold]x" in done.stdout
    assert scalar(sites["lax"], "SELECT name FROM orders WHERE id = 2") == "[bold]x"
    some = ("orders", "--reference", "hq", "--target", "lax", "--only", "2")
    done = rectify(*some, "--json")
    assert done.exit_code == 0, done.output
    [told] = json.loads(done.stdout)["tables"]
    assert (told["target"], told["queued"], told["still"]) == ("lax", 1, [])
    done = rectify("--reference", "hq")
    assert done.exit_code == 0, done.output
    assert "1 row mended." in done.stdout
    assert "in flight" in done.stdout
    assert scalar(sites["bos"], "SELECT qty FROM orders WHERE id = 3") == 3


def test_a_master_that_is_away_is_said(
    sites: Directory, write_settings: WriteSettings
) -> None:
    with without(sites, "hq") as left:
        rectify = caller(left, write_settings)
        done = rectify("--reference", "bos")
        assert (done.exit_code, "hq left out:" in done.stdout) == (4, True)
        for away in (["--reference", "hq"], ["--reference", "bos", "--target", "hq"]):
            done = rectify(*away)
            assert (done.exit_code, "hq cannot be compared" in done.stderr) == (4, True)


def test_a_reference_has_to_be_named(
    sites: Directory, write_settings: WriteSettings
) -> None:
    assert caller(sites, write_settings)().exit_code == 2
