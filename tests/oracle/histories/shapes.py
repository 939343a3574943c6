"""The shapes that histories draw from, and those of them that CI draws."""

from tests.oracle.histories.acts import SHAPES as ACTS
from tests.oracle.histories.columns import ALTERED
from tests.oracle.histories.group import SHAPES as GROUP
from tests.oracle.histories.tables import ACTIONS, METHODS, TRIGGERS

ALL = frozenset(
    {
        *ACTS,
        *(f"on delete {action.lower()}" for action in ACTIONS),
        *(f"on update {action.lower()}" for action in ACTIONS),
        *(f"trigger {what}" for what in TRIGGERS),
        *ALTERED,
        *GROUP,
        "unique checked at commit",
        "too long",
        "not in the encoding",
        "skipped",
        *(f"method {name}" for name in METHODS),
    }
)

_NOT_IN_CI = frozenset(
    {
        "on delete cascade",
        "on delete set null",
        "on delete set default",
        "on update cascade",
        "on update set null",
        "on update set default",
    }
)

#: Those that are drawn by the small run that judges each commit.
CI = ALL - _NOT_IN_CI

DRAWN = {"all": ALL, "ci": CI}
