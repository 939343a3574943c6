"""The shapes that histories draw from."""

from tests.oracle.histories.acts import ACTS
from tests.oracle.histories.columns import ALTERED
from tests.oracle.histories.group import SHAPES as GROUP
from tests.oracle.histories.peers import SHAPES as PEERS
from tests.oracle.histories.tables import ACTIONS, METHODS, TRIGGERS

ALL = frozenset(
    {
        *ACTS,
        *(f"on delete {action.lower()}" for action in ACTIONS),
        *(f"on update {action.lower()}" for action in ACTIONS),
        *(f"trigger {what}" for what in TRIGGERS),
        *ALTERED,
        *GROUP,
        "DDL in the middle",
        *PEERS,
        "unique checked at commit",
        "too long",
        "not in the encoding",
        "skipped",
        *(f"method {name}" for name in METHODS),
    }
)
