"""Random changes at a master and two sites, settled by rules: all end equal.

One master decides, so every method converges (`snaptide conflicts check` says so, and
this test asks it); what additive and latest timestamp make of a row is known too.
`SNAPTIDE_RANDOM_HISTORIES` says how many histories are tried.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import deferred
import snapshots
from masters import rules
from masters.analysis import convergence
from masters.rules import rulebook
from sites import Directory, Site
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh, settle

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]

HISTORIES = int(os.environ.get("SNAPTIDE_RANDOM_HISTORIES", "3"))
SITES = ("hq", "jfk", "lga")

#: A column for each method, and for those that need a stamp a group of three.
METHODS: dict[str, dict[str, object]] = {
    "additive": {},
    "average": {},
    "overwrite": {},
    "discard": {},
    "minimum": {"column": "minimum"},
    "maximum": {"column": "maximum", "tie": "site"},
    "priority_group": {
        "column": "priority_group",
        "priorities": {str(n): n for n in range(10)},
    },
}
STAMPED = ["latest_timestamp", "at", "who"]
BOOK = {
    "tables": {
        "item": {
            "groups": {**{name: [name] for name in METHODS}, "stamped": STAMPED},
            "update": [
                *(
                    {"group": name, "method": name, "parameters": given}
                    for name, given in METHODS.items()
                ),
                {
                    "group": "stamped",
                    "method": "latest_timestamp",
                    "parameters": {"column": "at"},
                },
                {
                    "group": "stamped",
                    "method": "site_priority",
                    "parameters": {
                        "column": "who",
                        "priorities": {name: n for n, name in enumerate(SITES)},
                    },
                },
            ],
            "unique": [{"constraint": "item_pkey", "method": "informix_always"}],
            "delete": [{"method": "ignore"}],
        }
    }
}


@dataclass(slots=True)
class World:
    """Sites with one table, and rows of their own for each history."""

    sites: Directory
    histories: int = 0
    keys: list[int] = field(default_factory=list)
    #: what was added to each row; moment, rank of the site and value stamped last
    added: list[int] = field(default_factory=list)
    newest: list[tuple[int, int, int | None]] = field(default_factory=list)

    def begin(self) -> None:
        """Three rows that everybody has, and the keys of two that nobody has yet."""
        self.histories += 1
        first = self.histories * 10
        self.keys = [first + n for n in range(5)]
        self.added = [0] * 5
        self.newest = [(0, 0, None)] * 5
        values = ", ".join(f"({key})" for key in self.keys[:3])
        run(self.sites["hq"], f"INSERT INTO public.item (id) VALUES {values}")
        settle(self.sites["jfk"], self.sites["lga"])

    def step(self, clock: int, name: str, row: int, what: str, value: int) -> None:
        """What somebody does at a site, or a push of it."""
        site, key = self.sites[name], self.keys[row]
        there = run(site, f"SELECT 1 FROM public.item WHERE id = {key}")
        if what == "push" and name != "hq":
            deferred.push(site)
        elif what == "add":
            self.added[row] += value
            run(site, _update(key, f"additive = additive + {value}"))
        elif what == "set":
            changes = (f"{column} = {value}" for column in METHODS)
            run(site, _update(key, ", ".join(list(changes)[1:])))
        elif what == "stamp":
            self.stamp(site, row, value + clock // 8, clock)
        elif what == "delete":
            run(site, f"DELETE FROM public.item WHERE id = {key}")
        elif what == "insert" and not there:
            run(site, f"INSERT INTO public.item (id) VALUES ({key})")

    def stamp(self, site: Site, row: int, minute: int, clock: int) -> None:
        """Change a row with a stamp; now and then two are equal, none goes back."""
        stamp = (minute, SITES.index(site.name), clock)
        if stamp[:2] > self.newest[row][:2]:
            self.newest[row] = stamp
            at = f"timestamptz '2026-01-01' + {minute} * interval '1 minute'"
            changes = f"latest_timestamp = {clock}, who = '{site.name}', at = {at}"
            run(site, _update(self.keys[row], changes))


def _update(key: int, changes: str) -> str:
    return f"UPDATE public.item SET {changes} WHERE id = {key}"


@pytest.fixture
def world(make_sites: Callable[..., Directory]) -> World:
    sites = make_sites(*SITES)
    numbers = ", ".join(f"{name} int NOT NULL DEFAULT 5" for name in METHODS)
    run(
        sites["hq"],
        f"CREATE TABLE public.item (id int PRIMARY KEY, {numbers}, latest_timestamp"
        " int, at timestamptz NOT NULL DEFAULT '2026-01-01', who text)",
    )
    log(sites["hq"], "item")
    for name in SITES[1:]:
        snapshots.create(sites[name], "item", master="hq", updatable=True)
        refresh(sites[name], "item")
    rulebook.apply(sites["hq"], BOOK)
    return World(sites)


#: Who, which row, what, and a value.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(SITES),
        st.integers(0, 4),
        st.sampled_from(["add", "set", "stamp", "stamp", "delete", "insert", "push"]),
        st.integers(1, 9),
    ),
    min_size=8,
    max_size=30,
)


@settings(
    max_examples=HISTORIES,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(steps=STEPS)
def test_converging_methods_end_equal_everywhere(
    world: World, steps: list[tuple[str, int, str, int]]
) -> None:
    world.begin()
    assert convergence.check(rules.list_rules(world.sites["hq"]), {}) == []
    for clock, step in enumerate(steps, 1):
        world.step(clock, *step)
    settle(world.sites["jfk"], world.sites["lga"])
    assert_equal_to_master(world.sites["jfk"], world.sites["lga"])
    hq = world.sites["hq"]
    if run(hq, "SELECT 1 FROM snaptide.error_transaction"):
        run(hq, "DELETE FROM snaptide.error_transaction")
        return  # somebody has to decide, so that the sums are not all there
    deleted = {row for _, row, what, _ in steps if what == "delete"}
    for row in {0, 1, 2} - deleted:
        ((total, latest),) = run(
            hq,
            "SELECT additive, latest_timestamp FROM public.item"
            f" WHERE id = {world.keys[row]}",
        )
        assert total == 5 + world.added[row]
        assert latest == world.newest[row][2]
