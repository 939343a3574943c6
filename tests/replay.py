"""What a transaction did to one row, replayed naively: the oracle of the fold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations, product
from random import Random

#: The values of a row besides its key; None is no row.
Image = tuple[str | None, ...]

#: Values that are easy to mistake for one another.
VALUES = (None, "", "a", "b", "a,b", '"', "(", "NULL", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One recorded call: its number, and the row before and after."""

    call_no: int
    old: Image | None
    new: Image | None

    @property
    def kind(self) -> str:
        """As the trigger records it."""
        return "I" if self.old is None else "D" if self.new is None else "U"


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """The one change that the steps amount to."""

    kind: str
    old: Image | None
    new: Image | None


def replay(steps: Sequence[Step]) -> Net | None:
    """The net change of steps given in the order in which they happened."""
    start, end = steps[0].old, steps[-1].new
    if len(steps) == 1:
        return Net(kind=steps[0].kind, old=start, new=end)
    if start == end:
        first = min(steps, key=lambda step: step.call_no)
        return Net(kind="N", old=None, new=first.new) if first.kind == "I" else None
    if start is None:
        return Net(kind="I", old=None, new=end)
    if end is None:
        return Net(kind="D", old=start, new=None)
    dropped = any(step.kind == "D" for step in steps)
    return Net(kind="R" if dropped else "U", old=start, new=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """The one change that several transactions amount to."""

    #: the first one; of an invalid change the one that does not follow
    tran: int
    several: bool
    net: Net


def succeed(nets: Sequence[tuple[int, Net]]) -> Succession:
    """The net change of transactions, numbered and in order, that changed one row."""
    (first, net), *rest = nets
    if not rest:
        return Succession(tran=first, several=False, net=net)
    start, state = _ends(net)
    replaced = net.kind == "R"
    for number, later in rest:
        here, after = _ends(later)
        if here != state:
            invalid = Net(kind="X", old=start, new=None)
            return Succession(tran=number, several=True, net=invalid)
        replaced = replaced or later.kind in ("R", "I")
        state = after
    changed = Net(kind=_kind(start, state, replaced=replaced), old=start, new=state)
    return Succession(tran=first, several=True, net=changed)


def _ends(net: Net) -> tuple[Image | None, Image | None]:
    """Where a net change starts and ends; what came and went did neither."""
    return (None, None) if net.kind == "N" else (net.old, net.new)


def _kind(start: Image | None, end: Image | None, *, replaced: bool) -> str:
    if start is None:
        return "A" if end is None else "I"
    if end is None:
        return "D"
    return "R" if replaced else "S" if start == end else "U"


def walks(images: Sequence[Image], length: int) -> Iterator[list[Step]]:
    """Every way in which a row can live through so many steps, with every numbering."""
    states = (None, *images)
    for path in product(states, repeat=length + 1):
        if any(a is None and b is None for a, b in pairwise(path)):
            continue
        for numbers in permutations(range(1, length + 1)):
            yield [
                Step(call_no=number, old=old, new=new)
                for number, old, new in zip(numbers, path, path[1:], strict=False)
            ]


def random_walks(random: Random, columns: int, transactions: int) -> list[list[Step]]:
    """A row's life in several transactions; some do not follow from the one before."""
    states: list[Image] = [tuple(random.choices(VALUES, k=columns)) for _ in range(3)]
    found: list[list[Step]] = []
    current = random.choice([None, *states])
    for _ in range(transactions):
        if random.random() < 0.1:
            current = random.choice([None, *states])
        found.append(_walk(random, states, current, random.choice([1, 1, 2, 4])))
        current = found[-1][-1].new
    return found


def random_walk(random: Random, columns: int) -> list[Step]:
    """A row's life in one transaction, its numbers shuffled as nested triggers do."""
    states: list[Image] = [tuple(random.choices(VALUES, k=columns)) for _ in range(3)]
    current = random.choice([None, *states])
    return _walk(random, states, current, random.randint(1, 7))


def _walk(
    random: Random, states: list[Image], current: Image | None, steps: int
) -> list[Step]:
    # In the order in which they happened, whatever their numbers.
    path = [current]
    for _ in range(steps):
        current = random.choice(states if current is None else [None, *states])
        path.append(current)
    numbers = list(range(1, len(path)))
    if random.random() < 0.7:
        random.shuffle(numbers)
    return [
        Step(call_no=number, old=old, new=new)
        for number, old, new in zip(numbers, path, path[1:], strict=False)
    ]
