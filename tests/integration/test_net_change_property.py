"""The fold in SQL against a naive replay: tens of thousands of transactions."""

from collections.abc import Sequence
from random import Random

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deferred.net_change import net_changes
from deferred.queue import Queue
from sites import Directory, Site
from sites.transport import copy_rows
from sites.types import Xid8
from tests.linked_table import link
from tests.replay import Image, Net, Step, random_walk, replay, walks

#: xid -> key -> steps, in the order in which they happened
Cases = Sequence[Sequence[list[Step]]]


@pytest.fixture
def queue(sites: Directory) -> Queue:
    """An empty queue of rows with two values."""
    return link(sites, "rows", "id int PRIMARY KEY, v text, w text", with_log=False)


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)
@given(seed=st.integers(0, 2**32))
def test_fold_is_what_a_replay_gives(queue: Queue, sites: Directory, seed: int) -> None:
    """Random lives of several rows in each of thousands of transactions."""
    random = Random(seed)
    cases = [
        [random_walk(random, columns=2) for _ in range(random.randint(1, 3))]
        for _ in range(3000)
    ]
    _compare(sites["jfk"], queue, cases)


def test_fold_of_every_short_life(queue: Queue, sites: Directory) -> None:
    """All lives of up to four steps between two images, in every numbering."""
    images: list[Image] = [("a", None), ("", "b")]
    for length in (1, 2, 3, 4):
        _compare(sites["jfk"], queue, [[walk] for walk in walks(images, length)])


def _compare(site: Site, queue: Queue, cases: Cases) -> None:
    found = _fold(site, queue, cases)
    for unit, case in enumerate(cases, 1):
        for key, steps in enumerate(case):
            expected = replay(steps)
            assert found.get((unit, key)) == expected, steps


def _fold(site: Site, queue: Queue, cases: Cases) -> dict[tuple[int, int], Net]:
    """Fill the queue, each case a transaction, and fold it all in one statement."""
    table = queue.sql()
    rows = [
        (unit, number, step.kind, False, *_image(key, step.old), *_image(key, step.new))
        for unit, case in enumerate(cases, 1)
        for number, key, step in _numbered(unit, case)
    ]
    unit = sa.column("unit", sa.BigInteger)
    units = sa.select(
        unit.label("order_no"), sa.cast(sa.cast(unit, sa.Text), Xid8()).label("xid")
    ).select_from(sa.func.generate_series(1, len(cases)).alias("unit"))
    with site.connect() as connection:
        columns = ["xid", "call_no", "kind", "moved", *_columns()]
        copy_rows(connection, table, columns, rows)
        folded = connection.execute(net_changes(queue, units.subquery())).all()
        connection.rollback()
    return {_key(row): _net(row) for row in folded}


def _numbered(unit: int, case: Sequence[list[Step]]) -> list[tuple[int, int, Step]]:
    return [
        (unit * 1000 + key * 100 + step.call_no, key, step)
        for key, steps in enumerate(case)
        for step in steps
    ]


def _columns() -> list[str]:
    return ["o1", "o2", "o3", "n1", "n2", "n3"]


def _image(key: int, image: Image | None) -> list[object]:
    return [None] * 3 if image is None else [key, *image]


def _key(row: sa.Row[tuple[object, ...]]) -> tuple[int, int]:
    return row.unit, row.n1 if row.o1 is None else row.o1


def _net(row: sa.Row[tuple[object, ...]]) -> Net:
    return Net(
        kind=row.kind,
        old=None if row.o1 is None else (row.o2, row.o3),
        new=None if row.n1 is None else (row.n2, row.n3),
    )
