"""The pages of the console: a module for each subject, a template for each page."""

from __future__ import annotations

from collections.abc import Sequence

from snaptide.web.page import Action, Page
from snaptide.web.pages import (
    action_log,
    check,
    conflict,
    conflicts,
    doctor,
    error_actions,
    error_queue,
    group,
    group_check,
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
    error_queue.LIST,
    error_queue.PAGE,
    parked.PAGE,
    check.LIST,
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
    group.LIST,
    group.PAGE,
    group_check.LIST,
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
    *group_check.ACTIONS,
]
