"""Eight masters under load, as a mesh and as a star: each change everywhere, once.

Judged by counts: how long it takes is what `make soak KIND=group` tells.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

import groups
from groups.define_paths import Shape
from sites import Directory
from tests.grouped import push_all
from tests.soak import group, work

TRANSACTIONS = int(os.environ.get("SNAPTIDE_SOAK_TRANSACTIONS", "10"))


@pytest.mark.parametrize(
    "shape",
    [groups.full_mesh, partial(groups.star, hub=group.NAMES[0])],
    ids=["mesh", "star"],
)
def test_each_change_comes_to_each_master_once(
    make_sites: Callable[..., Directory], shape: Shape
) -> None:
    sites = make_sites(*group.NAMES)
    group.found(sites, shape)
    made = _work(sites)
    assert set(made.values()) == {TRANSACTIONS}
    assert group.assert_quiet(sites, made)
    assert group.depth(sites).calls == 0


def _work(sites: Directory) -> dict[str, int]:
    """Users write and pushes run at all masters at once, then all is pushed."""
    urls = {
        name: site.url.render_as_string(hide_password=False)
        for name, site in sites.items()
    }
    load, over = work.Load(transactions=TRANSACTIONS), threading.Event()
    with ThreadPoolExecutor(2 * len(sites)) as pool:
        pushers = [pool.submit(work.carry, urls, name, over) for name in sites]
        try:
            users = {
                name: pool.submit(work.write, urls, name, load, over) for name in sites
            }
            made = {name: one.result() for name, one in users.items()}
        finally:
            over.set()
        for one in pushers:
            one.result()
    push_all(sites)
    return made
