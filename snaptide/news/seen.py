"""What has gone wrong at a site: read from it as it is, whoever was told already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import deferred
import snapshots
from deferred.queues.backlog import Backlog
from groups.differences import differences
from masters.contract_catalog import ContractState
from sites import Site
from sites.words import counted
from snaptide.reading import AnswerStatus
from snaptide.status import (
    ContractStatus,
    ScheduleStatus,
    refuse_unready,
    status_of,
)
from snaptide.units import duration

#: So many parked transactions of a site are told one by one; then how many more.
MOST = 20
#: A text is cut after so many characters.
LONGEST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Something that has gone wrong."""

    site: str
    #: parked, schedule, destination, contract, answers, check or differing
    kind: str
    #: the parked transaction, schedule, destination, contract, refresh group, check, or
    #: group and table
    subject: str
    what: str
    #: the command that shows or mends it
    todo: str

    @property
    def text(self) -> str:
        """All of it in one line."""
        return f"{self.site} {self.kind} {self.subject}: {self.what} ({self.todo})"


def seen(site: Site) -> dict[str, News]:
    """What is wrong at a site now, by a key that is another one if it happens again.

    Raises:
        SiteUnreachable, SiteNotInitialised, OlderSchema, NewerSchema: it cannot say.
    """
    status = status_of(site, alone=True)
    refuse_unready(status)
    found = [
        *_parked(site),
        *_schedules(site.name, status.schedules),
        *_destinations(site.name, status.backlog),
        *_contracts(site.name, status.contracts),
        *_answers(site.name, status.answers),
        *(_checks(site) if status.unexplained else ()),
        *_differing(site),
    ]
    return dict(found)


def in_short(site: str, found: Sequence[News]) -> list[News]:
    """News as they are told: of many parked transactions, the last only counted."""
    parked = [one for one in found if one.kind == "parked"]
    rest = len(parked) - MOST
    if rest <= 0:
        return list(found)
    left_out = set(map(id, parked[MOST:]))
    more = News(
        site=site,
        kind="parked",
        subject="others",
        what=f"{rest:,} more transactions have been parked.",
        todo=f"snaptide errors list {site}",
    )
    return [*(one for one in found if id(one) not in left_out), more]


def _parked(site: Site) -> Iterator[tuple[str, News]]:
    for one in deferred.list_errors(site):
        what = f"A transaction of {one.origin} is parked, {one.reason}: "
        yield (
            f"parked {one.id} {one.parked_at.isoformat()}",
            News(
                site=site.name,
                kind="parked",
                subject=str(one.id),
                what=_cut(f"{what}{one.error_message}"),
                todo=f"snaptide errors show {site.name} {one.id}",
            ),
        )


def _schedules(
    site: str, found: Sequence[ScheduleStatus]
) -> Iterator[tuple[str, News]]:
    for one in found:
        if one.last_error and not one.disabled:
            subject = f"{one.kind} {one.subject}"
            # Whatever the next runs say, it is the same news until one ends well.
            yield (
                f"schedule {subject}",
                News(
                    site=site,
                    kind="schedule",
                    subject=subject,
                    what=_cut(f"The last run failed: {one.last_error}"),
                    todo=f"snaptide schedule list {site}",
                ),
            )


def _destinations(site: str, found: Sequence[Backlog]) -> Iterator[tuple[str, News]]:
    for one in found:
        for state in one.states:
            if state.state != "invalid":
                continue
            yield (
                f"destination {one.destination} {state.since.isoformat()}",
                News(
                    site=site,
                    kind="destination",
                    subject=one.destination,
                    what=_cut(f"Nothing is pushed to it: {state}"),
                    todo=f"snaptide destination validate {site} {one.destination}",
                ),
            )


def _contracts(
    site: str, found: Sequence[ContractStatus]
) -> Iterator[tuple[str, News]]:
    for one in found:
        if one.state == ContractState.KEPT:
            continue
        subject = f"{one.site}:{one.group}"
        yield (
            f"contract {subject} {one.state} {one.since.isoformat()}",
            News(
                site=site,
                kind="contract",
                subject=subject,
                what=_cut(f"It is {one.state}: {one.reason}"),
                todo=f"snaptide contract show {site} {one.site} {one.group}",
            ),
        )


def _answers(site: str, found: Sequence[AnswerStatus]) -> Iterator[tuple[str, News]]:
    for one in found:
        if one.state == ContractState.LATE:
            yield (
                f"answers {one.group} {one.since.isoformat()}",
                News(
                    site=site,
                    kind="answers",
                    subject=one.group,
                    what=f"Answers of {one.master} to its changes are late; the limit "
                    f"is {duration(one.within)}.",
                    todo=f"snaptide push {site} {one.master}",
                ),
            )


def _checks(site: Site) -> Iterator[tuple[str, News]]:
    """The checks that are the last of a snapshot, if rows differed without a reason.

    One that found nothing, but looked at some rows or columns alone, does not count.
    """
    later: set[str] = set()
    for one in snapshots.list_checks(site):
        part = one.where is not None or bool(one.columns)
        compared = {
            found.name
            for found in one.snapshots
            if found.compared and (found.unexplained or not part)
        }
        if one.unexplained and compared - later:
            yield (
                f"check {one.run} {one.at.isoformat()}",
                News(
                    site=site.name,
                    kind="check",
                    subject=str(one.run),
                    what=counted(one.unexplained, "row", "differ")
                    + " without a reason.",
                    todo=f"snaptide check show {site.name} {one.run}",
                ),
            )
        later |= compared


def _differing(site: Site) -> Iterator[tuple[str, News]]:
    """What a master of a group has listed after a decision; no other one is asked."""
    for one in differences(site, compare=False):
        some = "Rows" if one.rows is None else counted(one.rows, "row")
        # More rows for the same reason are the same news until none is listed.
        yield (
            f"differing {one.group} {one.table} {one.why}",
            News(
                site=site.name,
                kind="differing",
                subject=f"{one.group} {one.table}",
                what=_cut(f"{some} may differ from those of other masters: {one.why}."),
                todo=f"snaptide group check {site.name} {one.group} {one.table}",
            ),
        )


def _cut(text: str) -> str:
    """A text in one line, without what a terminal takes for a command."""
    line = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."
