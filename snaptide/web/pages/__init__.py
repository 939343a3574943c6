"""The pages of the console: one module and one template each."""

from __future__ import annotations

from collections.abc import Sequence

from snaptide.web.page import Action, Page
from snaptide.web.pages import (
    action_log,
    check,
    checks,
    conflict,
    conflicts,
    doctor,
    error_actions,
    error_queue,
    error_queues,
    group,
    group_check,
    group_checks,
    groups,
    history,
    in_doubt,
    other_rules,
    overview,
    parked,
    queue,
    refresh_group,
    repair,
    rules,
    schedules,
    site,
    work,
)

PAGES: Sequence[Page] = [
    overview.PAGE,
    site.PAGE,
    queue.PAGE,
    queue.CALLS,
    error_queues.PAGE,
    error_queue.PAGE,
    parked.PAGE,
    checks.PAGE,
    check.PAGE,
    repair.PAGE,
    schedules.PAGE,
    refresh_group.PAGE,
    doctor.PAGE,
    action_log.PAGE,
    conflicts.PAGE,
    conflict.PAGE,
    rules.PAGE,
    other_rules.PAGE,
    history.PAGE,
    groups.PAGE,
    group.PAGE,
    group_checks.PAGE,
    group_check.PAGE,
    in_doubt.PAGE,
    work.PAGE,
]

ACTIONS: Sequence[Action] = [
    *error_actions.ACTIONS,
    *schedules.ACTIONS,
    *other_rules.ACTIONS,
    *in_doubt.ACTIONS,
    *repair.ACTIONS,
    *group_checks.ACTIONS,
]
