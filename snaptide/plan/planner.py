"""Compares what a file says of a site with what the site has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sites import Directory, QualifiedName, Site
from snapshots.definitions.numbered import NONE
from snaptide.plan import around, beneath
from snaptide.plan.contracts import contracts
from snaptide.plan.found import Found, FoundSnapshot, found_at, revision_of
from snaptide.plan.published import publications
from snaptide.plan.reader import SiteFile
from snaptide.plan.step import Step
from snaptide.plan.steps import (
    AlterConditions,
    Altered,
    AlterLeaving,
    AlterNumbers,
    CreateSnapshot,
    DropSnapshot,
    InitSite,
    RefreshGroup,
    SetPropagation,
)
from snaptide.plan.wanted import Wanted, children_first, wanted_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would make a site what a file says."""

    site: str
    #: in the order in which they are done
    steps: tuple[Step, ...]
    #: what the site has and the file does not name: done only when asked for
    extra: tuple[Step, ...] = ()
    #: differences that nothing changes in place
    refused: tuple[str, ...] = ()
    #: differences that do no harm
    notes: tuple[str, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether the site is what the file says; it may have more."""
        return not self.steps and not self.refused

    def printed(self) -> dict[str, object]:
        """What is printed of it as JSON."""
        return {
            "site": self.site,
            "settled": self.settled,
            "steps": self.steps,
            "extra": self.extra,
            "refused": self.refused,
            "notes": self.notes,
        }


@dataclass(slots=True)
class _Draft:
    steps: list[Step] = field(default_factory=list)
    extra: list[Step] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plan(directory: Directory, file: SiteFile) -> Plan:
    """Find what would make a site what a file says. Changes nothing.

    Raises:
        BadSiteFile: the message names the place in the file.
        SiteUnreachable: the site or one of its masters.
        SiteNotInitialised: one of them has the schema of another version.
    """
    document = file.document
    with file.source.naming(("site", "name")):
        site = directory[document.site.name]
    found = found_at(site)
    wanted = wanted_by(file, site, found)
    draft = _Draft()
    homes = {one.home for one in wanted}
    new = {home for home in sorted(homes) if revision_of(site.peer(home)) is None}
    if found.revision is None:
        draft.steps.append(InitSite(site=site.name))
    draft.steps += [InitSite(site=home) for home in sorted(new)]
    new |= {site.name} if found.revision is None else set()
    created = [one for one in wanted if one.name not in found.snapshots]
    draft.steps += beneath.types(site, created, draft.refused)
    draft.steps += beneath.logs(file, site, found, wanted, new, draft.refused)
    draft.steps += beneath.rules(file, site, new)
    _snapshots(file, site, found, wanted, draft)
    _groups(file, site, found, wanted, draft)
    draft.steps += contracts(file, site, found, wanted, draft.extra, draft.notes)
    draft.steps += publications(file, site, found, draft.extra, draft.refused)
    draft.steps += around.grants(file, site, found, wanted, draft.extra)
    draft.steps += around.budgets(file, site, found, wanted, draft.extra)
    draft.steps += around.schedules(file, site, found, wanted, draft.extra)
    draft.extra += _left_over(site, found, wanted)
    return Plan(
        site=site.name,
        steps=tuple(draft.steps),
        extra=tuple(draft.extra),
        refused=tuple(draft.refused),
        notes=tuple(draft.notes),
    )


def _snapshots(
    file: SiteFile, site: Site, found: Found, wanted: Sequence[Wanted], draft: _Draft
) -> None:
    """Create and alter snapshots, parents before their children."""
    altered = _Alterations(file, site.name, draft.steps)
    for one in wanted:
        there = found.snapshots.get(one.name)
        if there is None:
            altered.make_those_asked(one)
            draft.steps.append(CreateSnapshot(site=site.name, wanted=one))
            continue
        obstacles = list(_in_the_way(one, there))
        drop = DropSnapshot(site=site.name, name=one.name).command
        draft.refused += [f"{one.name}: {what} ({drop})" for what in obstacles]
        if one.section.columns is None and set(one.columns) != {*_columns(there)}:
            draft.notes.append(_other_columns(one, there))
        if not obstacles and there.condition not in (one.condition, one.taken_along):
            altered.add(one, there)
        if not obstacles and there.described.leaving != one.section.leaving:
            draft.steps.append(
                AlterLeaving(site=site.name, name=one.name, leaving=one.section.leaving)
            )
        numbers = {} if obstacles else _other_numbers(one, there)
        if numbers:
            draft.steps.append(
                AlterNumbers(site=site.name, name=one.name, numbers=numbers)
            )
    altered.make()


class _Alterations:
    """The conditions to change, by refresh group.

    A child may ask for more than its parent has, so that neither can be altered before
    the other: all of a group are altered together. Only a new snapshot that asks for
    rows of theirs comes between.
    """

    def __init__(self, file: SiteFile, site: str, steps: list[Step]) -> None:
        self._file = file
        self._site = site
        self._steps = steps
        #: by group, with the tables that they are snapshots of
        self._waiting: dict[str, list[tuple[QualifiedName, Altered]]] = {}

    def add(self, one: Wanted, there: FoundSnapshot) -> None:
        """Have a snapshot altered."""
        altered = Altered(
            name=one.name,
            where=one.section.where,
            follow=one.section.follow,
            before=there.condition,
            now=one.condition,
        )
        self._waiting.setdefault(one.group, []).append((one.master, altered))

    def make_those_asked(self, new: Wanted) -> None:
        """Make the step of a group whose snapshots a new one asks for rows."""
        if any(table in new.asks for table, _ in self._waiting.get(new.group, ())):
            self._make(new.group)

    def make(self) -> None:
        """Make the steps that are left."""
        for group in [*self._waiting]:
            self._make(group)

    def _make(self, group: str) -> None:
        together = tuple(altered for _, altered in self._waiting.pop(group))
        self._steps.append(
            AlterConditions(
                site=self._site, whole=self._file.command, snapshots=together
            )
        )


def _other_numbers(one: Wanted, there: FoundSnapshot) -> dict[str, str]:
    """By column, how it is to get numbers, where it gets them otherwise."""
    return {
        column: str(one.drawn.get(column, NONE))
        for column in sorted({*one.drawn, *there.numbers} & {*_columns(there)})
        if one.drawn.get(column) != there.numbers.get(column)
    }


def _in_the_way(one: Wanted, there: FoundSnapshot) -> Iterator[str]:
    """What of a snapshot only dropping and creating it would change."""
    now = there.described
    if now.group != one.group:
        yield f"it is in refresh group {now.group}, not {one.group}"
    elif now.master != one.home:
        yield (
            f"its master is {now.master}, not {one.home}; a group of masters has "
            "snaptide snapshot switch-master"
        )
    if there.master != one.master:
        yield f"it is a snapshot of {there.master}, not of {one.master}"
    if now.updatable != one.section.updatable:
        yield (
            "it is updatable, not read-only"
            if now.updatable
            else "it is read-only, not updatable"
        )
    if one.section.columns is not None and {*_columns(there)} != {*one.columns}:
        yield (
            f"it has the columns {', '.join(_columns(there))}; not "
            f"{', '.join(one.columns)}"
        )


def _columns(there: FoundSnapshot) -> tuple[str, ...]:
    return there.described.columns


def _other_columns(one: Wanted, there: FoundSnapshot) -> str:
    lacks = [name for name in one.columns if name not in _columns(there)]
    more = [name for name in _columns(there) if name not in one.columns]
    said = [f"the snapshot lacks {', '.join(lacks)} of the master"] if lacks else []
    said += [f"the master has no {', '.join(more)} any more"] if more else []
    return f"{one.name}: {'; '.join(said)}"


def _groups(
    file: SiteFile,
    site: Site,
    found: Found,
    wanted: Sequence[Wanted],
    draft: _Draft,
) -> None:
    """Propagation, and one refresh of each group that has something to load."""
    altered = {
        one.name
        for step in draft.steps
        if isinstance(step, AlterConditions)
        for one in step.snapshots
    }
    for name, section in file.document.groups.items():
        members = [one for one in wanted if one.group == name]
        there = found.groups.get(name)
        synchronous = section.propagation == "synchronous"
        if members and (there is not None and there.synchronous) != synchronous:
            draft.steps.append(
                SetPropagation(site=site.name, group=name, synchronous=synchronous)
            )
        if any(_is_due(found, one.name) or one.name in altered for one in members):
            draft.steps.append(RefreshGroup(site=site.name, group=name))


def _is_due(found: Found, name: QualifiedName) -> bool:
    there = found.snapshots.get(name)
    return there is None or there.due


def _left_over(
    site: Site, found: Found, wanted: Sequence[Wanted]
) -> Iterator[DropSnapshot]:
    named = {one.name for one in wanted}
    for name in children_first(found.snapshots):
        if name not in named:
            yield DropSnapshot(site=site.name, name=name)
