"""Contracts of a site's refresh groups: compared with what a file says, and set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import masters
import snapshots
from masters import Contract, OnBreach, UnknownContract
from masters.contracts.contract import Terms, agreed
from sites import Directory, Site
from snaptide import limits
from snaptide.plan.checks import terms_of
from snaptide.plan.document import ContractSection
from snaptide.plan.found import Found, may_read
from snaptide.plan.reader import SiteFile
from snaptide.plan.step import Step, command_line
from snaptide.plan.wanted import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class SetContract(Step):
    """Set how old what a refresh group shows may be."""

    group: str
    #: as the file has it
    section: ContractSection

    @property
    def command(self) -> str:
        words = ["contract", "set", self.site, self.group]
        for name, value in _written(self.section).items():
            words += [f"--{name.replace('_', '-')}", value]
        return command_line(*words)

    def run(self, directory: Directory) -> None:
        terms = asdict(terms_of(self.section))
        snapshots.set_contract(directory[self.site], self.group, **terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropContract(Step):
    """End a contract."""

    #: the site that has the group
    of: str
    group: str

    @property
    def command(self) -> str:
        return command_line("contract", "drop", self.site, self.of, self.group)

    def run(self, directory: Directory) -> None:
        with suppress(UnknownContract):
            masters.drop_contract(directory[self.site], self.of, self.group)


def contracts(
    file: SiteFile,
    site: Site,
    found: Found,
    wanted: Sequence[Wanted],
    extra: list[Step],
    notes: list[str],
) -> Iterator[Step]:
    """Set contracts; those of the site that the file does not name are extra.

    Contracts that our user at the master may not read, it may not set: they are noted.
    """
    sections = file.document.contracts
    homes = {name: one.master for name, one in found.groups.items()}
    hidden = {*homes.values()} - {*_readable(site, found)}
    there = kept_for(site, found)
    for group, section in sections.items():
        if homes.get(group) in hidden:
            step = SetContract(site=site.name, group=group, section=section)
            notes.append(
                f"contract of {group}: our user at {homes[group]} may neither read nor "
                f"set contracts, so the operator of {homes[group]} does: {step.command}"
            )
            continue
        has = there.get((homes.get(group, ""), group))
        members = {one.key for one in wanted if one.group == group} | {
            one.key for one in found.snapshots.values() if one.described.group == group
        }
        if has is None or _facts(has) != (terms_of(section), members):
            yield SetContract(site=site.name, group=group, section=section)
    for home, group in there:
        if group not in sections or homes.get(group) != home:
            extra.append(DropContract(site=home, of=site.name, group=group))


def kept_for(site: Site, found: Found) -> dict[tuple[str, str], Contract]:
    """By master and group, the contracts that masters keep of a site."""
    return {
        (home, one.group): one
        for home in _readable(site, found)
        for one in masters.list_contracts(site.peer(home))
        if one.site == site.name
    }


def _readable(site: Site, found: Found) -> list[str]:
    """The masters whose contracts our user there may read."""
    return [
        home
        for home in sorted({one.master for one in found.groups.values()})
        if may_read(site.peer(home), "snaptide.contract")
    ]


def exported(site: Site, found: Found) -> dict[str, Any]:
    """The contracts of a site, as a file describes them.

    A master keeps a contract although its group is gone or has another master.
    """
    homes = {name: one.master for name, one in found.groups.items()}
    return {
        group: _written(_section(one))
        for (home, group), one in kept_for(site, found).items()
        if homes.get(group) == home
    }


def _section(one: Contract) -> ContractSection:
    share = one.log_share
    return ContractSection(
        visible_within=_age(one.visible_within),
        answered_within=_age(one.answered_within),
        may_be_away=_age(one.may_be_away),
        log_share=None if share is None else limits.as_size(share),
        on_breach=one.on_breach,
    )


def _age(limit: timedelta | None) -> str | None:
    return None if limit is None else limits.as_age(limit)


def _facts(one: Contract) -> tuple[Terms, set[str]]:
    return agreed(one), {*one.snapshots}


def _written(section: ContractSection) -> dict[str, str]:
    values = section.model_dump(mode="json", exclude_none=True)
    if section.on_breach is OnBreach.TELL:
        del values["on_breach"]
    return values
