"""What users of a world of lenses do, in the forms that they are shown."""

from __future__ import annotations

from collections.abc import Mapping

from tests.oracle.histories.acts import Pen, Statement, delete, insert, update
from tests.oracle.histories.ledger import Row, Rows
from tests.oracle.histories.lens_fields import BAD, FIELDS, TABLE, Form


def new(pen: Pen, key: int, forms: Mapping[str, Form]) -> Statement:
    """INSERT of a row, for a user who has its fields in these forms."""
    given: dict[str, object] = {"note": pen.token()}
    for form in forms.values():
        given |= _changed(pen, form, {})
    return insert(TABLE, id=key, h=pen.history, uid=pen.token(), **given)


def statements(
    pen: Pen, forms: Mapping[str, Form], rows: Rows, *, spare: bool
) -> list[Statement]:
    """A change of a row, for a user who has these before him."""
    pen.rows = rows
    match pen.chance.choice(("insert", *["update"] * 6, "delete", "key")):
        case "insert":
            return [new(pen, pen.free(TABLE), forms)]
        case "delete":
            return [delete(TABLE, pen.there(TABLE))]
        case "key":
            return [update(TABLE, pen.there(TABLE), id=pen.free(TABLE))]
    key = pen.there(TABLE)
    row = next((r for r in rows.values() if r["id"] == key), {})
    given: dict[str, object] = {}
    # A site may show nothing of one: its old columns went for sites, and new ones did
    # not come for them.
    fields = [field for field in FIELDS if field in forms]
    for field in pen.chance.sample(fields, pen.chance.choice((0, 1, 1, 2))):
        given |= _changed(pen, forms[field], row)
    if spare and pen.chance.random() < 0.1:
        given["spare"] = pen.chance.randrange(100)
    if not given or pen.chance.random() < 0.2 or "spare" in given:
        given["note"] = pen.token()
    return [update(TABLE, key, **given)]


def _changed(pen: Pen, form: Form, row: Row) -> dict[str, object]:
    """New values of columns of a field, for a user who has this row before him."""
    parts = form.parts(row) if row else {}
    drawn, value = pen.chance.random(), pen.token()
    if form.field == "number":
        bad = form.type == "text" and drawn < 0.05
        new = f"{BAD}{value}" if bad else str(pen.chance.randrange(1000))
        return form.values({"number": new})
    if form.field == "label":
        return form.values({"label": None if drawn < 0.1 else f"L:{value}"})
    left, right = f"{form.field} left", f"{form.field} right"
    made: dict[str, object] = {left: f"l:{value}", right: f"r:{value}"}
    if drawn < 0.1:
        made = {left: None, right: None}
    elif drawn < 0.7 and parts.get(left) is not None:
        made = {**parts, (left if drawn < 0.4 else right): f"x:{value}"}
    values = form.values(made)
    return {c: v for c, v in values.items() if not row or row[c] != v} or values
