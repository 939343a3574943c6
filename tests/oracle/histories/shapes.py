"""The shapes that histories draw from."""

from tests.oracle.histories.acts import ACTS
from tests.oracle.histories.clashes import SHAPES as CLASHES
from tests.oracle.histories.columns import ALTERED
from tests.oracle.histories.group import SHAPES as GROUP
from tests.oracle.histories.lenses import SHAPES as LENSES
from tests.oracle.histories.peers import SHAPES as PEERS
from tests.oracle.histories.tables import ACTIONS, AT_SITES, METHODS, TRIGGERS

#: What becomes of a parked transaction.
THEN = (
    "",
    ", then retried",
    ", then edited",
    ", then deleted",
    ", retried in vain",
)

ALL = frozenset(
    {
        *ACTS,
        *(f"on delete {action.lower()}" for action in ACTIONS),
        *(f"on update {action.lower()}" for action in ACTIONS),
        *(f"trigger {what}" for what in TRIGGERS),
        *(f"trigger {what} at a site" for what in AT_SITES),
        *ALTERED,
        *CLASHES,
        *GROUP,
        *LENSES,
        "DDL in the middle",
        "by number",
        "column gone",
        "retried without a column",
        "virtual column of a site",
        "statement on a partition",
        "partition attached without triggers",
        "partition armed at once",
        *PEERS,
        "key change",
        "two references to one row",
        "reference to itself",
        "deferrable reference",
        "rows of others under an action",
        "unique checked at commit",
        "too long",
        "not in the encoding",
        "skipped",
        "parent discarded",
        "parent renamed",
        "parked dependant",
        *(f"parked{parent}{then}" for parent in ("", " parent") for then in THEN),
        "a push broken off",
        *(f"method {name}" for name in METHODS),
    }
)
