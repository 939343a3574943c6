"""Which values of a test are played: all of them, or in CI a third at each commit.

CI gives a commit 90 minutes of two cores; on a slow day the whole suite takes longer.
Much of it is tests of several values, which walk the same way through the product. Of
each such test CI plays a third, or one of two, chosen by the commit: a commit is judged
the same each time, and the next ones judge the others. `make test` plays all.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import pytest

from tests.seeds import ALWAYS_THE_SAME

#: So many commits play all values, if chance has it; two, where there are two.
PARTS = 3


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if not ALWAYS_THE_SAME:
        return
    # Whatever starts a server asks for its version.
    using = (i for i in items if "pg_version" in getattr(i, "fixturenames", ()))
    others = left_out((i.nodeid for i in using), _commit())
    config.hook.pytest_deselected(items=[i for i in items if i.nodeid in others])
    items[:] = [i for i in items if i.nodeid not in others]


def left_out(ids: Iterable[str], commit: int) -> set[str]:
    """The tests that are not played at a commit, among those with these ids.

    Parameters:
        commit: the hash of the commit, or another number.
    """
    values: dict[str, list[str]] = defaultdict(list)
    for one in ids:
        test, _, value = one.partition("[")
        if value:
            values[test].append(one)
    # Shuffled: each third value may have the same in common. And tests take turns that
    # differ: the first third of four values is two of them.
    return {
        one
        for test, of in values.items()
        for number, one in enumerate(sorted(of, key=_shuffled), _hash(test))
        if (commit - number) % min(PARTS, len(of))
    }


def _shuffled(one: str) -> tuple[int, str]:
    return _hash(one), one


def _hash(one: str) -> int:
    return crc32(one.encode())


def _commit() -> int:
    """The hash of the commit that is checked out."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(found.stdout, 16)
