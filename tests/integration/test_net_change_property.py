"""The fold in SQL against a naive replay: lives of a row by the ten thousand."""

import os
from collections.abc import Iterable, Iterator, Sequence
from random import Random

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deferred.batches.net_change import EXPECTING_MANY, net_changes
from deferred.queues.queue import Queue
from sites import Directory, Site
from sites.transfer.transport import copy_rows
from sites.transfer.types import Xid8
from tests.linked_table import link
from tests.replay import (
    Image,
    Net,
    Step,
    Succession,
    random_walk,
    random_walks,
    replay,
    succeed,
    walks,
)

#: Lives of each property; `make test-long` asks for 100,000.
CASES = int(os.environ.get("SNAPTIDE_FOLD_CASES", "24000"))
EACH = 3000

#: transaction -> key -> steps, in the order in which they happened
Cases = Sequence[Sequence[list[Step]]]

property_settings = settings(
    max_examples=max(CASES // EACH, 1),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)


@pytest.fixture
def queue(sites: Directory) -> Queue:
    """An empty queue of rows with two values."""
    return link(sites, "rows", "id int PRIMARY KEY, v text, w text", with_log=False)


@property_settings
@given(seed=st.integers(0, 2**32))
def test_fold_is_what_a_replay_gives(queue: Queue, sites: Directory, seed: int) -> None:
    """Random lives of several rows in each of thousands of transactions."""
    random = Random(seed)
    cases = [
        [random_walk(random, columns=2) for _ in range(random.randint(1, 3))]
        for _ in range(EACH)
    ]
    _compare(sites["jfk"], queue, cases)


def test_fold_of_every_short_life(queue: Queue, sites: Directory) -> None:
    """All lives of up to four steps between two images, in every numbering."""
    images: list[Image] = [("a", None), ("", "b")]
    for length in (1, 2, 3, 4):
        _compare(sites["jfk"], queue, [[walk] for walk in walks(images, length)])


@property_settings
@given(seed=st.integers(0, 2**32))
def test_fold_of_transactions_is_what_a_replay_gives(
    queue: Queue, sites: Directory, seed: int
) -> None:
    """Random lives of thousands of rows, each in up to four of the transactions."""
    random = Random(seed)
    lives = [
        dict(
            zip(
                sorted(random.sample(range(1, 6), count)),
                random_walks(random, columns=2, transactions=count),
                strict=True,
            )
        )
        for count in random.choices((1, 2, 3, 4), k=EACH)
    ]
    _compare_lives(sites["jfk"], queue, lives)


def test_fold_of_every_short_life_in_several_transactions(
    queue: Queue, sites: Directory
) -> None:
    """All lives of up to four steps, each step a transaction, in order or not."""
    images: list[Image] = [("a", None), ("", "b")]
    steps = list(walks(images, 1))
    lives = [
        {number: [step] for number, [step] in enumerate(path, 1)}
        for path in _paths(steps, 4)
    ]
    _compare_lives(sites["jfk"], queue, lives)


def _paths(steps: list[list[Step]], length: int) -> Iterator[list[list[Step]]]:
    """All sequences of steps, whether they follow from one another or not."""
    if not length:
        yield []
        return
    for path in _paths(steps, length - 1):
        yield path
        for step in steps if len(path) == length - 1 else ():
            yield [*path, step]


def _compare(site: Site, queue: Queue, cases: Cases) -> None:
    calls = (
        (tran, key, step)
        for tran, case in enumerate(cases, 1)
        for key, steps in enumerate(case)
        for step in steps
    )
    rows = _fold(site, queue, calls, len(cases), group=None)
    found = {(row.tran, _key(row)): _net(row) for row in rows}
    for tran, case in enumerate(cases, 1):
        for key, steps in enumerate(case):
            assert found.get((tran, key)) == replay(steps), steps


def _compare_lives(
    site: Site, queue: Queue, lives: Sequence[dict[int, list[Step]]]
) -> None:
    calls = (
        (tran, key, step)
        for key, life in enumerate(lives)
        for tran, steps in life.items()
        for step in steps
    )
    rows = _fold(site, queue, calls, 5, group=5)
    assert {row.unit for row in rows} == {5}
    found = {
        _key(row): Succession(tran=row.tran, several=row.several, net=_net(row))
        for row in rows
        if row.kind != "X"
    }
    # An invalid change names its transaction; what it carries nobody reads.
    invalid = {(row.tran, row.call_no // 1000) for row in rows if row.kind == "X"}
    for key, life in enumerate(lives):
        nets = [(tran, net) for tran, steps in life.items() if (net := replay(steps))]
        expected = succeed(nets) if nets else None
        if expected is not None and expected.net.kind == "X":
            assert (expected.tran, key) in invalid, life
            assert key not in found, life
        else:
            assert found.get(key) == expected, life


def _fold(
    site: Site,
    queue: Queue,
    calls: Iterable[tuple[int, int, Step]],
    transactions: int,
    *,
    group: int | None,
) -> Sequence[sa.Row[tuple[object, ...]]]:
    """Fill the queue with calls of transactions and fold it all in one statement."""
    rows = [
        (
            tran,
            _number(tran, key, step, group),
            step.kind,
            False,
            *_image(key, step.old),
            *_image(key, step.new),
        )
        for tran, key, step in calls
    ]
    tran = sa.column("tran", sa.BigInteger)
    each = sa.select(
        tran.label("order_no"), sa.cast(sa.cast(tran, sa.Text), Xid8()).label("xid")
    ).select_from(sa.func.generate_series(1, transactions).alias("tran"))
    with site.session() as connection:
        columns = ["xid", "call_no", "kind", "moved", *_columns()]
        copy_rows(connection, queue.sql(), columns, rows)
        connection.execute(sa.select(*EXPECTING_MANY))
        folded = connection.execute(net_changes(queue, each.subquery(), group)).all()
        connection.rollback()
    return folded


def _number(tran: int, key: int, step: Step, group: int | None) -> int:
    """A number of its own for each call; of a group it tells the key."""
    major, minor = (tran, key) if group is None else (key, tran)
    return major * 1000 + minor * 100 + step.call_no


def _columns() -> list[str]:
    return ["o1", "o2", "o3", "n1", "n2", "n3"]


def _image(key: int, image: Image | None) -> list[object]:
    return [None] * 3 if image is None else [key, *image]


def _key(row: sa.Row[tuple[object, ...]]) -> int:
    return int(row.n1 if row.o1 is None else row.o1)


def _net(row: sa.Row[tuple[object, ...]]) -> Net:
    new = None if row.n1 is None else (row.n2, row.n3)
    return Net(
        kind=row.kind,
        old=None if row.o1 is None else (row.o2, row.o3),
        new=None if row.kind == "A" else new,
    )
