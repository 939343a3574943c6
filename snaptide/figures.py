"""The figures that a monitoring system keeps: what they are called, and their values.

All of them come from `snaptide.status`, so that figures, `snaptide status` and the
console never disagree. Labels are names of sites, destinations, refresh groups,
schedules, publications and images; no figure has a label for a row, a key or a user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from deferred.queues.backlog import Backlog
from deferred.queues.destination_state import State
from masters.contract_catalog import ContractState
from snaptide.doctor.finding import Severity
from snaptide.status import GroupStatus, ScheduleStatus, SiteStatus
from snaptide.totals import StepTimes

#: Values of the labels after `site`, and a number; of a histogram, what was counted.
Sample = tuple[tuple[str, ...], float | StepTimes]

#: What a figure does: a counter only grows.
Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure.

    Parameters:
        labels: those after `site`.
        read: its samples at a site, None where a number is not known; it is not asked
            if the site is away or not ready, unless `always`.
    """

    name: str
    help: str
    read: Callable[
        [SiteStatus], Iterable[tuple[tuple[str, ...], float | StepTimes | None]]
    ]
    labels: tuple[str, ...] = ()
    kind: Kind = "gauge"
    always: bool = False

    def of(self, status: SiteStatus) -> Iterator[Sample]:
        """Its samples at a site; each label of `labels` has a value."""
        if self.always or (status.reachable and status.error is None):
            for labels, value in self.read(status):
                if value is not None:
                    yield labels, value


def _site(read: Callable[[SiteStatus], float]) -> Callable[..., Iterator[Sample]]:
    def samples(status: SiteStatus) -> Iterator[Sample]:
        yield (), read(status)

    return samples


def _failed(one: Backlog | GroupStatus | ScheduleStatus) -> float:
    return float(one.last_error is not None)


def _running(status: SiteStatus) -> Iterable[ScheduleStatus]:
    return (one for one in status.schedules if not one.disabled)


def _states(status: SiteStatus) -> Iterator[Sample]:
    for one in status.backlog:
        has = {state.state for state in one.states}
        for state in get_args(State):
            yield (one.destination, state), float(state in has)


def _contract_states(status: SiteStatus) -> Iterator[Sample]:
    for one in status.contracts:
        for state in ContractState:
            yield (one.site, one.group, state.value), float(state == one.state)


def _findings(status: SiteStatus) -> Iterator[Sample]:
    found = Counter(one.severity for one in status.findings)
    for severity in Severity:
        yield (severity.value,), found[severity]


#: All figures.
FIGURES = (
    Figure(
        name="snaptide_up",
        help="1 if the site answered within two seconds, else 0.",
        read=_site(lambda status: float(status.reachable)),
        always=True,
    ),
    Figure(
        name="snaptide_ready",
        help="1 if the site could say how it is; if not, it has no other figures.",
        read=_site(lambda s: float(s.reachable and s.error is None)),
        always=True,
    ),
    Figure(
        name="snaptide_queue_transactions",
        help="Transactions that the destination has not answered.",
        labels=("destination",),
        read=lambda s: (((q.destination,), q.transactions) for q in s.backlog),
    ),
    Figure(
        name="snaptide_queue_calls",
        help="Calls of those transactions.",
        labels=("destination",),
        read=lambda s: (((q.destination,), q.calls) for q in s.backlog),
    ),
    Figure(
        name="snaptide_queue_bytes",
        help="Size of those calls, as the database stores them.",
        labels=("destination",),
        read=lambda s: (((q.destination,), q.bytes) for q in s.backlog),
    ),
    Figure(
        name="snaptide_queue_oldest_seconds",
        help="Age of the oldest of those transactions; 0 if there is none.",
        labels=("destination",),
        read=lambda s: (
            ((q.destination,), s.since(q.oldest) or 0.0) for q in s.backlog
        ),
    ),
    Figure(
        name="snaptide_delivered_transactions_total",
        help="Transactions that pushes have brought to the destination.",
        labels=("destination",),
        kind="counter",
        read=lambda s: (((name,), count) for name, count in s.delivered.items()),
    ),
    Figure(
        name="snaptide_push_age_seconds",
        help="Time since the last push that ended well; none before the first.",
        labels=("destination",),
        read=lambda s: (((q.destination,), s.since(q.last_push_at)) for q in s.backlog),
    ),
    Figure(
        name="snaptide_push_failed",
        help="1 if the last push failed, else 0.",
        labels=("destination",),
        read=lambda s: (((q.destination,), _failed(q)) for q in s.backlog),
    ),
    Figure(
        name="snaptide_contract_state",
        help="1 if the destination is in the state, else 0; an open one is in none.",
        labels=("destination", "state"),
        read=_states,
    ),
    Figure(
        name="snaptide_parked_transactions",
        help="Transactions in the error queue, by reason; none if it is empty.",
        labels=("reason",),
        read=lambda s: (((one.reason,), one.transactions) for one in s.parked_for),
    ),
    Figure(
        name="snaptide_parked_oldest_seconds",
        help="Age of the oldest of them in the error queue; 0 if it is empty.",
        read=_site(
            lambda status: max(
                (status.since(one.oldest) or 0.0 for one in status.parked_for),
                default=0.0,
            )
        ),
    ),
    Figure(
        name="snaptide_conflicts_resolved_total",
        help="Conflicts that rules have resolved here, by method.",
        labels=("method",),
        kind="counter",
        read=lambda s: (((name,), count) for name, count in s.resolved.items()),
    ),
    Figure(
        name="snaptide_refresh_age_seconds",
        help="How old what the group shows is: the time since the moment of its master "
        "that the last refresh brought; none before the first.",
        labels=("group",),
        read=lambda s: (((group.name,), group.age) for group in s.groups),
    ),
    Figure(
        name="snaptide_refresh_failed",
        help="1 if the last refresh had a problem, else 0.",
        labels=("group",),
        read=lambda s: (((group.name,), _failed(group)) for group in s.groups),
    ),
    Figure(
        name="snaptide_refresh_seconds",
        help="How long a step of a refresh took that found something new.",
        labels=("group", "step"),
        kind="histogram",
        read=lambda s: (
            ((g.name, step.step), step) for g in s.groups for step in g.steps
        ),
    ),
    Figure(
        name="snaptide_refresh_rows_total",
        help="Rows that refreshes have inserted, updated, deleted and left alone.",
        labels=("group", "kind"),
        kind="counter",
        read=lambda s: (
            ((g.name, kind), n) for g in s.groups for kind, n in g.rows.items()
        ),
    ),
    Figure(
        name="snaptide_held_back_rows",
        help="Rows that the last refresh left alone, by what held them back; none if "
        "nothing did.",
        labels=("group", "reason"),
        read=lambda s: (
            ((g.name, why), n) for g in s.groups for why, n in g.held_back.items()
        ),
    ),
    Figure(
        name="snaptide_log_bytes",
        help="Size of all snapshot logs of the site.",
        read=_site(lambda status: status.log_bytes),
    ),
    Figure(
        name="snaptide_log_oldest_seconds",
        help="Age of the oldest change that the site's snapshot logs keep; 0 if they "
        "are empty.",
        read=_site(lambda status: status.since(status.log_oldest) or 0.0),
    ),
    Figure(
        name="snaptide_log_pinned_seconds",
        help="How long the logs keep changes for another site: the time since the "
        "oldest of its last refreshes.",
        labels=("by",),
        read=lambda s: (((one.site,), s.since(one.refreshed_at)) for one in s.readers),
    ),
    Figure(
        name="snaptide_visible_age_seconds",
        help="Age of the oldest change of this master that a group under contract does "
        "not show, as the last look found it; 0 if it shows all.",
        labels=("by", "group"),
        read=lambda s: (((one.site, one.group), one.age) for one in s.contracts),
    ),
    Figure(
        name="snaptide_visible_contract_state",
        help="1 if the contract of a group is in the state, else 0.",
        labels=("by", "group", "state"),
        read=_contract_states,
    ),
    Figure(
        name="snaptide_granted_sites",
        help="Sites to which the publication is granted.",
        labels=("publication",),
        read=lambda s: (((one.name,), len(one.grants)) for one in s.publications),
    ),
    Figure(
        name="snaptide_image_expires_seconds",
        help="Time until the image expires; less than 0 if it has, and the snapshot "
        "logs are kept for it until the next purge.",
        labels=("image",),
        read=lambda s: (
            ((one.name,), (one.expires_at - s.now).total_seconds())
            for one in s.images
            if s.now
        ),
    ),
    Figure(
        name="snaptide_answer_age_seconds",
        help="Age of the oldest change of the site that the master of a group under "
        "contract has not answered, as the last look found it; 0 if it answered all.",
        labels=("group",),
        read=lambda s: (((one.group,), one.age) for one in s.answers),
    ),
    Figure(
        name="snaptide_answer_late",
        help="1 if such a change is older than the contract allows, else 0.",
        labels=("group",),
        read=lambda s: (
            ((one.group,), float(one.state == ContractState.LATE)) for one in s.answers
        ),
    ),
    Figure(
        name="snaptide_schedule_late_seconds",
        help="How long a run has been overdue; 0 if it is not late.",
        labels=("kind", "subject"),
        read=lambda s: (((o.kind, o.subject), o.overdue) for o in _running(s)),
    ),
    Figure(
        name="snaptide_schedule_failed",
        help="1 if the last run failed, else 0.",
        labels=("kind", "subject"),
        read=lambda s: (((o.kind, o.subject), _failed(o)) for o in _running(s)),
    ),
    Figure(
        name="snaptide_check_unexplained_rows",
        help="Rows that the last saved check of each snapshot could not explain.",
        read=_site(lambda status: status.unexplained),
    ),
    Figure(
        name="snaptide_in_doubt_transactions",
        help="Coordinated transactions that are prepared here and not ended.",
        read=_site(lambda status: status.in_doubt),
    ),
    Figure(
        name="snaptide_findings",
        help="Findings about work that has stopped and should run.",
        labels=("severity",),
        read=_findings,
    ),
)
