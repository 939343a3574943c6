"""What a master has for other sites is told: contracts, publications, images."""

from __future__ import annotations

from pathlib import Path

import pytest

from sites import Directory
from snaptide.status import status_of
from tests.console import Browser, console
from tests.fix_commands import Snaptide
from tests.fix_worlds import prepared_once
from tests.linked_table import run

#: 800 characters, each of which is escaped.
LONG = "repeat('\"<', 400)"

PLANTED = """
INSERT INTO snaptide.publication (name) VALUES ('sales'), ('pays');
INSERT INTO snaptide.publication_table
SELECT id, 'public', t, NULL, '{}' FROM snaptide.publication,
  unnest('{sale, item}'::text[]) t;
INSERT INTO snaptide.publication_grant (publication_id, site_name, login, parameters,
  updatable)
SELECT id, 'store3', 's3', '{"store": "3", "till": "a=b"}', true
FROM snaptide.publication WHERE name = 'sales';
INSERT INTO snaptide.image VALUES
  ('00000000-0000-0000-0000-000000000003', 'stick', now(), now(),
   now() + interval '2 d'),
  (gen_random_uuid(), 'old', now(), NULL, now() - interval '3 h');
INSERT INTO snaptide.registered_snapshot (site_id, snapshot, site_name, table_schema,
  table_name, updatable, position, refreshed_at)
SELECT '00000000-0000-0000-0000-000000000003', t, 'image stick', 'public', t, false,
  pg_current_snapshot(), now() - interval '1 h' FROM unnest('{sale, item}'::text[]) t;
INSERT INTO snaptide.contract (site_id, site_name, refresh_group, snapshots, on_breach,
  state, reason, age, looked_at)
VALUES (gen_random_uuid(), 'store3', 'shop', '{sale}', 'tell', 'late',
  'Nothing came.', 1234, now())
"""


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    run(sites["hq"], *PLANTED.split(";"))


def test_a_status_has_publications_grants_and_images(sites: Directory) -> None:
    found = status_of(sites["hq"])
    pays, sales = found.publications
    assert (pays.name, pays.tables, pays.grants) == ("pays", ("item", "sale"), ())
    [grant] = sales.grants
    assert (grant.site, grant.login, grant.updatable) == ("store3", "s3", True)
    assert grant.parameters == {"store": "3", "till": "a=b"}
    old, stick = found.images
    assert (old.name, old.tables, old.made_at) == ("old", (), None)
    assert (stick.tables, old.logs_since) == (("item", "sale"), None)
    assert found.since(stick.logs_since) == pytest.approx(3600, abs=60)
    assert found.since(stick.expires_at) == 0
    nothing = status_of(sites["jfk"])
    assert (nothing.publications, nothing.images) == ((), ())


def test_the_command_tells_them(sites: Directory, snaptide: Snaptide) -> None:
    told = snaptide.said("status", "hq", code=3)
    for line in (
        "hq -> store3",
        "store=3, till=a=b",
        "updatable",
        "hq -> no site",
        "hq: stick",
        "expired: the next purge",
        "not complete",
    ):
        assert line in told, told
    [found] = snaptide.report("status", "hq", code=3)
    assert [one["name"] for one in found["publications"]] == ["pays", "sales"]
    assert found["publications"][1]["grants"][0]["parameters"]["store"] == "3"
    assert [one["name"] for one in found["images"]] == ["old", "stick"]
    assert found["contracts"][0]["state"] == "late"


def test_the_page_of_a_master_has_them(sites: Directory, tmp_path: Path) -> None:
    browser = Browser(console(sites, tmp_path))
    page = browser.client.get("/sites/hq").text
    for said in (
        "<h2>Contracts</h2>",
        '<small class="flag">late</small>',
        "<h2>Publications</h2>",
        "store=3, till=a=b",
        '<td data-label="Updatable">yes</td>',
        "no site",
        "<h2>Images</h2>",
        "expired: goes with the next purge",
        "not complete",
    ):
        assert said in page, page
    page = browser.client.get("/sites/jfk").text
    assert not any(h in page for h in ("Contracts", "Publications", "Images"))


def test_the_page_stays_small(sites: Directory, tmp_path: Path) -> None:
    run(
        sites["hq"],
        "INSERT INTO snaptide.publication_grant"
        " (publication_id, site_name, login, parameters)"
        f" SELECT id, n || {LONG}, n || {LONG}, json_build_object('a', {LONG})"
        " FROM snaptide.publication, generate_series(1, 5000) n WHERE name = 'sales'",
        "INSERT INTO snaptide.image"
        f" SELECT gen_random_uuid(), n || {LONG}, now(), NULL, now()"
        " FROM generate_series(1, 500) n",
        "INSERT INTO snaptide.contract (site_id, site_name, refresh_group, snapshots,"
        " on_breach, state, reason)"
        f" SELECT gen_random_uuid(), n || {LONG}, {LONG}, '{{}}', 'tell', 'late',"
        f" {LONG} FROM generate_series(1, 500) n",
        "INSERT INTO snaptide.refresh_group (name, master, master_id, last_error)"
        f" SELECT n || {LONG}, 'hq', gen_random_uuid(), {LONG}"
        " FROM generate_series(1, 100) n",
        "INSERT INTO snaptide.schedule (kind, subject, interval, next_at, last_error)"
        f" SELECT 'refresh', n || {LONG}, '1h', now() - interval '2 h', {LONG}"
        " FROM generate_series(1, 100) n",
    )
    answer = Browser(console(sites, tmp_path)).client.get("/sites/hq")
    assert answer.status_code == 200
    assert len(answer.content) < 80_000
    assert "more grants are not shown" in answer.text
