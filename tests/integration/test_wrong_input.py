"""What is wrong in commands of publications, contracts and images ends with its code.

Nothing is half made: the catalogs of both sites, and folders, are what they were.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import masters
import snapshots
from sites import Directory
from snaptide.embedded import PostgresServer
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings
from tests.fix_worlds import prepared_once
from tests.granted import login, stores
from tests.linked_table import run

WHERE = "sale=store_id = :store"

#: A command line, what it ends with, and words of what it says.
WRONG = {
    "publication create": [
        ("hq sales sale", 1, "SNP-151"),
        ("hq new nothing", 1, "SNP-004 nothing"),
        ("hq new bare", 1, "SNP-101 bare"),
        ("hq new sale.sale.sale", 1, "SNP-005 sale.sale.sale"),
        ("hq new ''", 1, "SNP-005"),
        ("hq '' item", 1, "SNP-152 name"),
        ("hq new sale", 1, "SNP-152 sale another publication"),
        ("hq new item --where sale=id=:n", 1, "SNP-152 sale"),
        ("hq new item --where item", 2, "SNP-404 --where"),
        ("hq new item --where item=id=:n --where item=id=:m", 2, "SNP-404 twice"),
        ("hq new item --columns item=id --columns item=pays", 2, "SNP-404 twice"),
        ("hq new item --columns item", 2, "SNP-404 --columns"),
        ("hq new item --columns item=id,price", 1, "SNP-152 price"),
        ("hq new item --where 'item=id > :n'", 1, "SNP-153"),
        ("hq new item --where 'item=gone = :n'", 1, "SNP-153 gone"),
        ("hq new item --where 'item=pays = :n'", 1, "SNP-153 pays"),
        ("hq new item --where item=", 1, "SNP-153"),
        ("hq new item --where item=id=:n --where public.item=id=:m", 2, "twice"),
        ("hq new item --columns item=", 1, "SNP-005"),
        ("hqs new item", 1, "SNP-001 'hqs'"),
        ("gone new item", 4, "SNP-002"),
        ("hq new", 2, "Missing argument"),
    ],
    "publication alter": [
        ("hq sale sale", 1, "SNP-150"),
        ("hq sales nothing", 1, "SNP-004 nothing"),
        ("hq sales item --where sale=id=:n", 1, "SNP-152 sale"),
        (f"hq sales sale --where '{WHERE}' --where '{WHERE}'", 2, "SNP-404 twice"),
        ("hq sales sale --where 'sale=store_id > 3'", 1, "SNP-153"),
        ("gone sales sale", 4, "SNP-002"),
    ],
    "publication drop": [("hq sale", 1, "SNP-150"), ("gone sales", 4, "SNP-002")],
    "publication show": [("hq sale", 1, "SNP-150"), ("gone sales", 4, "SNP-002")],
    "publication list": [("gone", 4, "SNP-002")],
    "grant": [
        ("hq sale jfk --param store=3", 1, "SNP-150"),
        ("hq sales jfk --param store=3 --login no_such_role", 1, "SNP-155 no such"),
        ("hq sales jfk --param store=3 --login postgres", 1, "SNP-155 superuser"),
        ("hq sales jfk --param store", 2, "SNP-404 NAME=VALUE"),
        ("hq sales jfk --param =3", 2, "SNP-404 NAME=VALUE"),
        ("hq sales jfk --param store=3 --param store=4", 2, "SNP-404 twice"),
        ("hq sales jfk --login LOGIN", 1, "SNP-154 store"),
        ("hq sales jfk --login LOGIN --param store=3 --param x=3", 1, "SNP-154 x"),
        ("hq sales jfk --login LOGIN --param store=three", 1, "SNP-154 three"),
        ("hq sales '' --login LOGIN --param store=3", 1, "SNP-152 name of a site"),
        (
            "hq sales 'the store' --login LOGIN --param store=3",
            1,
            "SNP-152 'the store'",
        ),
        ("gone sales jfk --param store=3", 4, "SNP-002"),
    ],
    "revoke": [
        ("hq sale jfk", 1, "SNP-150"),
        ("hq sales lga", 1, "SNP-156 lga"),
        ("gone sales jfk", 4, "SNP-002"),
    ],
    "contract set": [
        ("jfk none --may-be-away 1d", 1, "SNP-221 none"),
        ("jfk item", 1, "SNP-441"),
        ("jfk item --visible-within soon", 2, "SNP-404 'soon'"),
        ("jfk item --visible-within 0s", 2, "SNP-340 0s"),
        ("jfk item --visible-within -1h", 2, "SNP-404 -1h"),
        ("jfk item --visible-within 2d --may-be-away 1d", 1, "SNP-442"),
        ("jfk item --visible-within 1h --on-breach release", 1, "SNP-442"),
        ("jfk item --visible-within 1h --on-breach repair", 1, "SNP-442 repaired"),
        ("jfk item --log-share much", 2, "SNP-404 much"),
        ("jfk item --log-share 0B", 1, "SNP-442"),
        ("jfk item --may-be-away 1d --on-breach shout", 2, "'shout'"),
        ("jfk item --may-be-away '0 6 * * *'", 2, "SNP-404 duration"),
        ("gone item --may-be-away 1d", 4, "SNP-002"),
        ("jfk lost --may-be-away 1d", 4, "SNP-002"),
    ],
    "contract show": [("hq jfk item", 1, "SNP-440"), ("gone jfk item", 4, "SNP-002")],
    "contract drop": [("hq jfk item", 1, "SNP-440"), ("gone jfk item", 4, "SNP-002")],
    "contract list": [("gone", 4, "SNP-002")],
    "image make": [
        ("hq DIR/i nothing", 1, "SNP-004 nothing"),
        ("hq DIR/i bare", 1, "SNP-101 bare"),
        ("hq DIR/i item --expires soon", 2, "SNP-404 --expires 'soon'"),
        ("hq DIR/i item --expires 0h", 2, "SNP-404 --expires '0h'"),
        ("hq DIR/i item --slice much", 2, "SNP-404 'much'"),
        ("hq DIR/i item --slice 0kB", 2, "SNP-404 --slice"),
        ("hq DIR/i item --where item=id=1 --where item=id=2", 2, "SNP-404 twice"),
        ("hq DIR/i item --where 'item=id ='", 1, "SNP-015"),
        ("hq DIR/i item --where item=", 1, "SNP-015"),
        ("hq DIR/i item --columns item=price", 1, "SNP-224 price"),
        ("hq DIR/i item --where sale=id=1", 1, "SNP-004 sale"),
        ("hq DIR/file item", 2, "is a file"),
        ("hq DIR/file/i item", 1, "SNP-260"),
        ("gone DIR/i item", 4, "SNP-002"),
    ],
    "image drop": [("hq gone", 1, "SNP-111"), ("gone gone", 4, "SNP-002")],
    "image list": [("gone", 4, "SNP-002")],
    "snapshot load": [
        ("jfk none --image DIR", 1, "SNP-221 none"),
        ("jfk item --image DIR/none", 1, "SNP-269"),
        ("jfk item --image DIR", 1, "SNP-269"),
        ("jfk item --image DIR/file", 1, "SNP-269"),
        ("jfk item", 2, "Missing option"),
        ("gone item --image DIR", 4, "SNP-002"),
    ],
    "plan": [
        ("DIR/none.toml", 2, "does not exist"),
        ("DIR", 2, "is a directory"),
        ("DIR/file", 1, "SNP-410 not TOML"),
        ("DIR/gone.toml", 4, "SNP-002"),
        ("DIR/hq.toml", 1, "SNP-411"),
        ("DIR/hq.toml --set store", 2, "SNP-404 NAME=VALUE"),
        ("DIR/hq.toml --set store=3 --set store=4", 2, "SNP-404 twice"),
        ("DIR/hq.toml --set store=3 --set more=4", 1, "SNP-412 more"),
    ],
    "apply": [
        ("DIR/file", 1, "SNP-410 not TOML"),
        ("DIR/gone.toml", 4, "SNP-002"),
        ("DIR/hq.toml --set store=three --set x=y", 1, "SNP-412 x"),
        ("DIR/hq.toml --set store=three", 1, "SNP-154 store=three"),
    ],
}

#: What a command may have changed at a site, as one text.
HAS = """
SELECT string_agg(found, chr(10) ORDER BY found) FROM (
  SELECT 'publication ' || row_to_json(p) FROM snaptide.publication p
  UNION ALL SELECT 'table ' || row_to_json(t) FROM snaptide.publication_table t
  UNION ALL SELECT 'grant ' || row_to_json(g) FROM snaptide.publication_grant g
  UNION ALL SELECT 'contract ' || row_to_json(c) FROM snaptide.contract c
  UNION ALL SELECT 'image ' || row_to_json(i) FROM snaptide.image i
  UNION ALL SELECT 'known ' || row_to_json(r) FROM snaptide.registered_snapshot r
  UNION ALL SELECT 'log ' || row_to_json(l) FROM snaptide.snapshot_log l
  UNION ALL SELECT 'snapshot ' || row_to_json(s) FROM snaptide.snapshot s
  UNION ALL SELECT format('policy %s %s', polrelid::regclass, polname) FROM pg_policy
  UNION ALL SELECT format('right %s %s', oid::regclass, relacl) FROM pg_class
    WHERE relacl IS NOT NULL AND relkind = 'r'
) every (found)
"""


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """Sales are published, items are not, and jfk has an empty snapshot of them."""
    hq = sites["hq"]
    stores(hq)
    run(
        hq,
        "CREATE TABLE public.item (id int PRIMARY KEY, pays int)",
        "CREATE TABLE public.bare (id int PRIMARY KEY)",
    )
    masters.create_snapshot_log(hq, "item")
    masters.create_publication(hq, "sales", ["sale"], where={"sale": "store_id=:store"})
    snapshots.create(sites["jfk"], "item", master="hq")
    run(
        sites["jfk"],
        "INSERT INTO snaptide.refresh_group (name, master, master_id)"
        " VALUES ('lost', 'gone', gen_random_uuid())",
    )


FILES = {
    "hq.toml": """
site = {name = "hq"}
publications.sales.tables.sale.where = "store_id = :store"
publications.sales.grants.jfk = {login = "LOGIN", params = {store = "${store}"}}
""",
    "gone.toml": """
site = {name = "gone"}
publications.sales.tables.sale = {}
""",
    "file": "no TOML",
}


@pytest.fixture
def given(
    sites: Directory, server: PostgresServer, tmp_path: Path
) -> Iterator[dict[str, str]]:
    """What stands for what in command lines; the files are there."""
    with login(server, sites["hq"]) as name:
        for file, text in FILES.items():
            (tmp_path / file).write_text(text.replace("LOGIN", name))
        yield {"LOGIN": name, "DIR": str(tmp_path)}


def there(sites: Directory, folder: str) -> list[Any]:
    """What a command may have changed."""
    files = sorted(Path(folder).rglob("*"))
    return [files, *(run(site, HAS) for site in sites.values())]


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_and_nothing_is_done(
    sites: Directory,
    write_settings: WriteSettings,
    given: dict[str, str],
    name: str,
) -> None:
    away = sites["hq"].url.set(host="127.0.0.1", port=1)
    urls = {one: site.url for one, site in sites.items()}
    with Directory({**urls, "gone": away}) as directory:
        snaptide = Snaptide(write_settings(directory))
    wrong = []
    before = there(sites, given["DIR"])
    for line, code, says in WRONG[name]:
        words = shlex.split(line)
        for short, meant in given.items():
            words = [one.replace(short, meant) for one in words]
        result = snaptide(*name.split(), *words)
        said = " ".join(result.output.split())
        if result.exit_code != code or not all(one in said for one in says.split()):
            wrong.append((line, result.exit_code, said))
    assert wrong == []
    assert there(sites, given["DIR"]) == before
