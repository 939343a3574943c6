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


def random_walk(random: Random, columns: int) -> list[Step]:
    """A row's life in one transaction, its numbers shuffled as nested triggers do."""
    states = [tuple(random.choices(VALUES, k=columns)) for _ in range(3)]
    current = random.choice([None, *states])
    path = [current]
    for _ in range(random.randint(1, 7)):
        current = random.choice(states if current is None else [None, *states])
        path.append(current)
    numbers = list(range(1, len(path)))
    if random.random() < 0.7:
        random.shuffle(numbers)
    return [
        Step(call_no=number, old=old, new=new)
        for number, old, new in zip(numbers, path, path[1:], strict=False)
    ]
