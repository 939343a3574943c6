"""Three masters and four sites under random writers: equal when all is quiet.

The masters are joined as a mesh or as a chain. Users change what they like at any of
the seven databases; pushes fail at any point, lose the line to the destination or die
of kill -9, and go on later; sites refresh now and then. With rules that converge all
masters have the same rows in the end, and every snapshot those of its master.
SNAPTIDE_GROUP_STEPS makes it longer.
"""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pytest

import deferred
import groups
import masters
import snapshots
from deferred.errors import PushInterrupted
from deferred.pushing.push import destinations
from groups.define_paths import Shape
from masters import rules
from sites import Directory, Site, faults
from sites.faults import InjectedFault
from tests.grouped import (
    GROUP,
    arrived,
    assert_masters_equal,
    found_group,
    group_id,
    push_all,
)
from tests.linked_table import run
from tests.pushing import end_push, start_push
from tests.stories import assert_equal_to_master, refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

MASTERS = ("a", "b", "c")
#: by site, the master of its snapshot
SITES: Mapping[str, str] = {"a1": "a", "a2": "a", "b1": "b", "c1": "c"}
STEPS = int(os.environ.get("SNAPTIDE_GROUP_STEPS", "60"))
SEED = os.environ.get("SNAPTIDE_GROUP_SEED", "1")
SHARED = 5
#: How pushes end before they should: in an error, without a line, by kill -9.
ENDS = ("error", "cut", "kill")
CUTS = (
    "push.after_plan",
    "push.after_apply",
    "push.before_commit",
    "push.after_commit",
    "push.before_mark",
)


@pytest.mark.parametrize(
    "shape", [groups.full_mesh, groups.chain], ids=["mesh", "chain"]
)
def test_masters_and_snapshots_are_equal_when_all_is_quiet(
    make_sites: Callable[..., Directory],
    shape: Shape,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sites = make_sites(*MASTERS, *SITES)
    chance, ended = random.Random(SEED), Counter[str]()
    _join(sites, shape)
    for step in range(STEPS):
        _write(sites[chance.choice([*MASTERS, *SITES])], step, chance)
        if chance.random() < 0.5:
            site = sites[chance.choice([*MASTERS, *SITES])]
            ended.update(_push(site, chance, monkeypatch))
        if chance.random() < 0.1:
            snapshots.refresh(sites[chance.choice([*SITES])], "orders")
    if SEED == "1":
        assert all(ended[way] for way in ENDS), ended
    homes = [sites[name] for name in SITES]
    settle(*homes)
    push_all(sites)
    settle(*homes)
    assert [deferred.list_errors(sites[name]) for name in MASTERS] == [[], [], []]
    assert len(assert_masters_equal(sites, *MASTERS)) >= SHARED
    assert_equal_to_master(*homes)
    _assert_each_got_all_once(sites)


def _join(sites: Directory, shape: Shape) -> None:
    found_group(sites, *MASTERS)
    groups.set_paths(sites["a"], GROUP, shape)
    for name in MASTERS:
        master = sites[name]
        masters.create_snapshot_log(master, "orders")
        rules.set_column_group(master, "orders", "amount", ["qty"])
        rules.add_update_resolution(master, "orders", "amount", "additive")
        rules.set_column_group(master, "orders", "said", ["name", "price", "at"])
        rules.add_update_resolution(
            master, "orders", "said", "latest_timestamp", parameters={"column": "at"}
        )
    for n in range(SHARED):
        run(sites["a"], f"INSERT INTO orders VALUES ({n}, 'n{n}', 0, 0, now())")
    push_all(sites)
    for name, master_name in SITES.items():
        snapshots.create(sites[name], "orders", master=master_name, updatable=True)
        refresh(sites[name], "orders")


def _write(site: Site, step: int, chance: random.Random) -> None:
    """One transaction of a user: some of what he may do with shared and new rows."""
    stamp = f"'2026-01-01'::timestamptz + {step} * interval '1 minute'"
    row, other = chance.sample(range(SHARED), 2)
    statements = [
        f"UPDATE orders SET qty = qty + {chance.randint(1, 9)} WHERE id = {row}",
        f"UPDATE orders SET price = {step}, at = {stamp} WHERE id = {other}",
        f"INSERT INTO orders VALUES ({100 + step}, 'row {step}', {step}, 0, {stamp})",
    ]
    run(site, *chance.sample(statements, chance.randint(1, 3)))


def _push(
    site: Site, chance: random.Random, patch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Push to all destinations; every other time something ends it on the way."""
    for to in destinations(site):
        [end] = chance.choices(["", *ENDS], [5, 3, 2, 1])
        point = chance.choice(CUTS)
        if end == "kill":
            status, said = end_push(
                start_push(
                    site.directory,
                    f"{point}:kill",
                    origin=site.name,
                    destination=to,
                ),
                site.directory,
            )
            assert status in (0, -signal.SIGKILL), said
            yield end if status else ""
            continue
        with patch.context() as fault:
            if end:
                faults._hits.clear()
                fault.setenv("SNAPTIDE_FAULT", f"{point}:{end}")
            if end == "cut":
                fault.setattr(faults, "_act", lambda *_, to=to: _cut(site.peer(to)))
            try:
                deferred.push(site, to)
            except (InjectedFault, PushInterrupted):
                yield end


def _cut(site: Site) -> None:
    """Have all others lose their connections to a database."""
    run(
        site,
        "SELECT pg_terminate_backend(pid, 90000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


def _assert_each_got_all_once(sites: Directory) -> None:
    """What began at each master has come to each other one, and nothing twice."""
    began = {}
    for name in MASTERS:
        [(count,)] = run(
            sites[name],
            "SELECT count(*) FROM snaptide.deferred_transaction"
            f" WHERE sources ->> '{group_id(sites[name])}' IS NULL",
        )
        began[name] = count
    for name in MASTERS:
        for source, (sender, count) in arrived(sites[name]).items():
            # What a rule discards at one master goes on to no other from there.
            assert count == began[source] or (
                sender != source and count < began[source]
            )
