"""`snaptide group`, from the first command to the last."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sites import Directory
from snaptide import doctor
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings
from tests.linked_table import ORDERS, rows, run

pytestmark = pytest.mark.usefixtures("spark")

Call = Callable[..., Any]


@pytest.fixture
def three(make_sites: Callable[..., Directory]) -> Directory:
    """Three sites that have the table, empty."""
    sites = make_sites("hq", "lax", "bos")
    for site in sites.values():
        run(site, f"CREATE TABLE orders ({ORDERS})")
    return sites


@pytest.fixture
def call(three: Directory, write_settings: WriteSettings) -> Call:
    """Run a command of the group; what it reports."""
    call: Call = partial(Snaptide(write_settings(three)).report, "group")
    return call


def test_life_of_a_group(three: Directory, call: Call, tmp_path: Path) -> None:
    call("create", "hq", "sales")
    call("add-table", "hq", "sales", "orders")
    run(three["hq"], "INSERT INTO orders (id) VALUES (1)")
    call("add-master", "hq", "sales", "lax", code=1)
    joined = call("add-master", "hq", "sales", "lax", "--copy")
    assert (joined["copied_from"], joined["rows"]) == ("hq", 1)
    call("add-master", "hq", "sales", "bos", "--copy", "--from", "lax", "--via", "lax")
    drawing = tmp_path / "sales.svg"
    call("paths", "hq", "sales", "--chain", "hq,lax,nowhere", code=1)
    ways = call("paths", "hq", "sales", "--chain", "lax,bos,hq", "--svg", str(drawing))
    assert {"source": "lax", "local": "bos", "target": "hq"} in ways
    assert "<title>lax to bos: changes of lax</title>" in drawing.read_text()
    chosen = call("error-action", "hq", "sales", "skip_row")
    assert chosen["error_action"] == "skip_row"
    assert call("quiet", "hq", "sales", "lax")["senders"] == ["bos"]
    assert call("unquiet", "hq", "sales", "lax")["quiet"] is False
    run(three["lax"], "UPDATE orders SET qty = 1")
    suspended = call("suspend", "hq", "sales", "--by", "ann")
    assert (suspended["status"], suspended["pushed"]) == ("quiesced", 2)
    call("execute-ddl", "hq", "sales", "ALTER TABLE orders ADD gate text")
    [left] = [f for f in doctor.examine(three["bos"]) if f.subject == "group sales"]
    assert "quiesced by ann since 20" in left.what
    assert left.todo == "snaptide group resume hq sales"
    [listed] = call("list", "bos")
    assert (listed["status"], listed["status_by"]) == ("quiesced", "ann")
    call("resume", "hq", "sales")
    assert not [f for f in doctor.examine(three["bos"]) if f.subject == "group sales"]
    shown = call("show", "lax", "sales")
    assert [one["master"] for one in shown["masters"]] == ["bos", "hq", "lax"]
    assert [len(rows(site)[0]) for site in three.values()] == [6, 6, 6]
    call("remove-master", "hq", "sales", "bos")
    call("remove-table", "hq", "sales", "orders")
    assert call("drop", "hq", "sales") == {"site": "hq", "dropped": "sales"}
    assert [call("list", name) for name in three] == [[], [], []]


def test_show_ends_with_three_where_a_master_has_a_problem(
    three: Directory, call: Call
) -> None:
    call("create", "hq", "sales")
    call("add-master", "hq", "sales", "lax")
    run(three["lax"], "UPDATE snaptide.replication_group SET version = 1")
    told = call("show", "hq", "sales", code=3)
    assert told["masters"][1]["problem"] == "has version 1 of the group, not 2"


def test_names_as_people_choose_them(
    make_sites: Callable[..., Directory], write_settings: WriteSettings, tmp_path: Path
) -> None:
    three = make_sites("hq", "new-york", "new")
    told = partial(Snaptide(write_settings(three)).said, "group")
    told("create", "hq", "sales [east]")
    for name in ("new-york", "new"):
        told("add-master", "hq", "sales [east]", name)
    assert told("show", "hq", "sales [east]").startswith("sales [east]: normal")
    drawn = told("paths", "hq", "sales [east]", "--tree", "new-york-hq,new-hq")
    assert "hq\n├─> new\n└─> new-york\n" in drawn
    told("paths", "hq", "sales [east]", "--tree", "new-york,new-hq", code=2)
    told("suspend", "hq", "sales [east]", "--by", "ann")
    assert "quiesced by ann since 20" in told("show", "hq", "sales [east]")
    script = tmp_path / "latin.sql"
    script.write_bytes("-- gr\xfcn".encode("latin-1"))
    refused = told("execute-ddl", "hq", "sales [east]", "--file", str(script), code=2)
    assert "SNP-404" in refused
    nowhere = str(tmp_path / "missing" / "sales.svg")
    told("paths", "hq", "sales [east]", "--mesh", "--svg", nowhere, code=2)
    assert told("paths", "hq", "sales [east]") == drawn
