"""Which partitions of a snapshot log hold what a position has not seen."""

import random

from masters.log import catalog, ring
from tests.seeds import seed

_RING = ring.SLOTS << ring.SLOT_SHIFT


def _slot(xid: int) -> int:
    return (xid >> ring.SLOT_SHIFT) % ring.SLOTS


def test_few_transactions_are_in_one_or_two() -> None:
    assert catalog.slots_since("100:100:", "100:300:") == (0, ring.KEPT)
    assert catalog.slots_since("32760:32760:", "32770:32770:") == (0, 1, ring.KEPT)
    # The one that was open then is in a partition of its own.
    assert catalog.slots_since("40000:98310:40000", "98320:98320:") == (1, 3, ring.KEPT)
    assert len(catalog.slots_since("1:1:", "1:9000000000:")) == ring.SLOTS + 1


def test_no_row_of_a_window_is_elsewhere() -> None:
    chance = random.Random(seed("SNAPTIDE_RING_SEED"))
    for _ in range(2_000):
        xmax = chance.randrange(3, 2 ** chance.randrange(4, 48))
        xmin = chance.randrange(max(3, xmax - 2 * _RING), xmax + 1)
        running = sorted(
            {chance.randrange(xmin, xmax) for _ in range(3 * (xmin < xmax))}
        )
        now = xmax + chance.randrange(2 * _RING)
        since = f"{xmin}:{xmax}:{','.join(map(str, running))}"
        found = catalog.slots_since(since, f"{now}:{now}:")
        some = [chance.randrange(xmax, now) for _ in range(20 * (now > xmax))]
        assert {_slot(xid) for xid in (*running, *some)} < {*found}, (since, now)
