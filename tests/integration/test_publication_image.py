"""An image fills the snapshot of a site to which a part of its rows is granted."""

from __future__ import annotations

from pathlib import Path

import pytest

import snapshots
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.granted import STORE, grant_sales, ids, let_in, publish_sales, stores
from tests.grouped import broken_off_at
from tests.imaged import away

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def published(sites: Directory) -> None:
    """Sales of two stores, those of store 3 granted to jfk."""
    stores(sites["hq"])
    publish_sales(sites["hq"])
    with let_in(sites):
        grant_sales(sites["hq"], STORE)


@pytest.mark.parametrize("begun", [False, True])
def test_rows_that_are_not_granted_leave_with_the_first_refresh(
    published: Directory, tmp_path: Path, begun: bool
) -> None:
    """Also if the master has known the snapshot since a refresh that was killed."""
    with let_in(published) as jfk:
        snapshots.create(jfk, "sale", master="hq", updatable=True)
        if begun:
            with broken_off_at("refresh.after_register"):
                snapshots.refresh(jfk, "sale")
        snapshots.make_image(published["hq"], tmp_path / "image", ["sale"])
        with away(jfk) as alone:
            snapshots.load_image(alone["jfk"], "sale", tmp_path / "image")
        assert len(ids(jfk, "sale")) == 10
        snapshots.refresh(jfk, "sale", allow_mass_delete=True)
        assert ids(jfk, "sale") == [2, 4, 6, 8, 10]
