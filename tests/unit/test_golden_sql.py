"""The statements that move changes, as they will run: see tests/expected."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa
from sqlalchemy.sql import ClauseElement

from deferred.batches.net_change import net_changes
from masters.apply import alike, detect
from sites.transfer.types import Xid8
from sites.writing import unique_values, write
from tests.golden import assert_as_expected
from tests.unit.tables import queue, staged, table

ORDERS = table("orders")
STAGED = staged(ORDERS)
UNIT = {"unit": 7}
GROUPS = [("amounts", ("price",)), (None, ("name", "doc"))]


def _net_changes(*, partial: bool = False) -> ClauseElement:
    transactions = sa.table(
        "transactions", sa.column("xid", Xid8()), sa.column("order_no")
    )
    return net_changes(queue(ORDERS, partial=partial), transactions)


STATEMENTS: dict[str, Callable[[], ClauseElement]] = {
    "net_changes": _net_changes,
    "net_changes_partial": lambda: _net_changes(partial=True),
    "detect": lambda: detect.with_rows(STAGED, 7, GROUPS).select(["price"]),
    "detect_alike": lambda: alike.select(
        detect.with_rows(STAGED, 7, GROUPS), ["name", "price"], ["price"], 4000
    ),
    "park": lambda: unique_values.park(STAGED, ORDERS.uniques[1], UNIT),
    "insert": lambda: write.insert(STAGED, UNIT, "I", "R"),
    "update": lambda: write.update(STAGED, UNIT),
    "delete": lambda: write.delete(STAGED, UNIT, "D"),
    "update_at_once": lambda: write.update(STAGED, UNIT, "U", was_there=True),
    "delete_at_once": lambda: write.delete(STAGED, UNIT, "D", was_there=True),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement_is_as_expected(name: str) -> None:
    assert_as_expected(STATEMENTS[name](), name)
