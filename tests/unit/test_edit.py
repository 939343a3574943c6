"""Edits of parked calls as operators write them."""

import pytest

from deferred import Edit
from deferred.errors import BadEdit


@pytest.mark.parametrize(
    ("text", "call", "column", "value"),
    [
        ("orders.qty=60", "orders", "qty", "60"),
        ("sales.orders.qty=60", "sales.orders", "qty", "60"),
        ("17.qty=60", 17, "qty", "60"),
        ("orders.note=a=b", "orders", "note", "a=b"),
        ("orders.note=", "orders", "note", ""),
        ("orders.note=1.5", "orders", "note", "1.5"),
        ('orders."Note"=x', "orders", "Note", "x"),
        ('"My.Orders".qty=1', '"My.Orders"', "qty", "1"),
        ('"a=b".qty=1', '"a=b"', "qty", "1"),
        ('orders."net.price"=1', "orders", "net.price", "1"),
        ('orders."12"" nails"= "x', "orders", '12" nails', ' "x'),
    ],
)
def test_edit_is_read(text: str, call: int | str, column: str, value: str) -> None:
    assert Edit.parse(text) == Edit(call=call, column=column, value=value)


@pytest.mark.parametrize(
    "text", ["", "qty", "qty=1", "orders.qty", ".qty=1", "a.=1", '"a.b=1']
)
def test_what_is_no_edit_is_refused(text: str) -> None:
    with pytest.raises(BadEdit, match="is not an edit"):
        Edit.parse(text)
