"""Paths: which master sends on to which, by the master at which a change began.

Only paths decide where a change goes (Ingres: dd_paths). From each source they form a
tree over all masters, so that each gets every change, and by one way only; then no
change can run in a circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from groups.errors import BadPaths


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Path:
    """Changes that began at `source` go from one master to another."""

    source: str
    local: str
    target: str


def full_mesh(masters: Sequence[str]) -> tuple[Path, ...]:
    """Each master sends its own changes to all others, and sends on no others."""
    return tuple(
        Path(source=one, local=one, target=other)
        for one in masters
        for other in masters
        if other != one
    )


def star(masters: Sequence[str], hub: str) -> tuple[Path, ...]:
    """All changes go through one master."""
    return tree(masters, [(hub, other) for other in masters if other != hub])


def chain(masters: Sequence[str]) -> tuple[Path, ...]:
    """Each master sends to its neighbours, in the order that is given."""
    return tree(masters, list(pairwise(masters)))


def tree(masters: Sequence[str], edges: Sequence[tuple[str, str]]) -> tuple[Path, ...]:
    """Changes go both ways along these edges.

    Raises:
        BadPaths: the edges leave a master alone, or lead to one by two ways.
    """
    neighbours: dict[str, list[str]] = {name: [] for name in masters}
    for one, other in edges:
        for name in (one, other):
            if name not in neighbours:
                raise BadPaths(f"{name} is not a master of the group.", master=name)
        neighbours[one].append(other)
        neighbours[other].append(one)
    if len(edges) >= len(masters):
        drawn = ", ".join(f"{one}-{other}" for one, other in edges)
        raise BadPaths(f"The edges {drawn} form a circle.", edges=list(edges))
    found: list[Path] = []
    for source in masters:
        found += _away_from(source, neighbours)
    check(masters, found)
    return tuple(found)


def joined(
    paths: Sequence[Path],
    masters: Sequence[str],
    new: str,
    via: str | None,
    *,
    read_only: Collection[str] = (),
) -> tuple[Path, ...]:
    """The paths with one more master.

    Parameters:
        masters: the masters so far.
        via: its one neighbour; None to exchange changes with each master directly.
        read_only: masters at which no changes begin; the new one may be one.
    """
    sources = [name for name in masters if name not in read_only]
    into = [Path(source=s, local=via or s, target=new) for s in sources]
    if new in read_only:
        return (*paths, *into)
    if via is None:
        out = [Path(source=new, local=new, target=m) for m in masters]
        return (*paths, *into, *out)
    on = [
        Path(source=new, local=p.local, target=p.target)
        for p in paths
        if p.source == via
    ]
    return (*paths, *into, Path(source=new, local=new, target=via), *on)


def without(paths: Sequence[Path], gone: str) -> tuple[Path, ...]:
    """The paths without a master; those behind it get their changes directly."""
    left = []
    for path in paths:
        if gone in (path.source, path.target):
            continue
        if path.local == gone:
            path = Path(
                source=path.source,
                local=_before(paths, path.source, gone),
                target=path.target,
            )
        left.append(path)
    return tuple(left)


def check(
    masters: Sequence[str],
    paths: Iterable[Path],
    read_only: Collection[str] = (),
    joining: Collection[str] = (),
) -> None:
    """Make sure that every change reaches every master once.

    Parameters:
        read_only: masters at which no changes begin, and that send nothing on.
        joining: masters whose rows are still copied. Calls that wait for one of them
            are dropped if its copy starts over: no other master may depend on them.

    Raises:
        BadPaths: a path is missing, doubled, or part of a circle; says which.
    """
    by_source: dict[str, list[Path]] = {name: [] for name in masters}
    for path in paths:
        unknown = {path.source, path.local, path.target} - set(masters)
        if unknown:
            raise BadPaths(f"Not a master of the group: {', '.join(sorted(unknown))}.")
        if path.local in read_only:
            raise BadPaths(f"{path.local} is read-only and cannot send changes on.")
        if path.local in joining and path.source != path.local:
            raise BadPaths(f"{path.local} is joining and cannot send changes on yet.")
        by_source[path.source].append(path)
    for source, mine in by_source.items():
        if source in read_only:
            continue
        fault = _fault(source, masters, mine)
        if fault is not None:
            raise BadPaths(
                f"Changes of {source} {fault}.\n{drawn(source, masters, mine)}",
                source=source,
            )


def drawn(source: str, masters: Sequence[str], paths: Iterable[Path]) -> str:
    """A drawing of the tree that changes of one master take, with any faults."""
    onward = follow(source, paths)
    seen = {source}

    def below(name: str, indent: str) -> Iterator[str]:
        targets = onward.get(name, [])
        for target in targets:
            last = target == targets[-1]
            again = target in seen
            yield f"{indent}{'└' if last else '├'}─> {target}{' (again)' * again}"
            if not again:
                seen.add(target)
                yield from below(target, indent + ("    " if last else "│   "))

    lines = [source, *below(source, "")]
    lost = [name for name in masters if name not in seen]
    return "\n".join(lines + [f"not reached: {', '.join(lost)}"] * bool(lost))


def follow(source: str, paths: Iterable[Path]) -> Mapping[str, list[str]]:
    """By master, the masters that it sends the changes of a source to, in order."""
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        if path.source == source:
            found.setdefault(path.local, []).append(path.target)
    return found


def _fault(source: str, masters: Sequence[str], paths: Sequence[Path]) -> str | None:
    """The fault in the paths of one source; None if they are a tree."""
    times = Counter(path.target for path in paths)
    if times[source]:
        back = next(path.local for path in paths if path.target == source)
        return f"run in a circle: {back} sends them back to {source}"
    doubled = [name for name, count in times.items() if count > 1]
    if doubled:
        ways = sorted(path.local for path in paths if path.target == doubled[0])
        return f"reach {doubled[0]} twice, from {' and '.join(ways)}"
    reached = _reached(source, paths)
    lost = [name for name in masters if name not in reached]
    if any(times[name] for name in lost):
        return f"run in a circle, and do not reach {', '.join(lost)}"
    return f"do not reach {', '.join(lost)}" if lost else None


def _reached(source: str, paths: Sequence[Path]) -> set[str]:
    ahead, reached = [source], {source}
    onward = follow(source, paths)
    while ahead:
        new = [name for name in onward.get(ahead.pop(), []) if name not in reached]
        reached |= set(new)
        ahead += new
    return reached


def _away_from(source: str, neighbours: Mapping[str, Sequence[str]]) -> list[Path]:
    found, ahead, seen = [], [source], {source}
    while ahead:
        local = ahead.pop()
        for target in neighbours[local]:
            if target not in seen:
                seen.add(target)
                ahead.append(target)
                found.append(Path(source=source, local=local, target=target))
    return found


def _before(paths: Sequence[Path], source: str, name: str) -> str:
    return next(p.local for p in paths if p.source == source and p.target == name)
