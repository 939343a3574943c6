"""What the users of a history do: statements over a handful of rows of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from psycopg import sql

from tests.oracle.histories.ledger import Rows

Statement = sql.Composed
#: Rows of a history: so few that everybody meets everybody.
KEYS = 6
CODES = "ABCD"
WHO = ("hq", "hq", "jfk", "jfk", "jfk", "lga", "lga", "lga")


@dataclass(slots=True)
class Pen:
    """Writes statements about the rows of one history; each value that it gives is new.

    Parameters:
        history: its number in its world.
        chance: what draws; nothing else may be drawn from it.
        tricks: values that somebody does not take: "long", "odd", "refused",
            "refused here".
    """

    history: int
    chance: Random
    tricks: Sequence[str] = ()
    #: the rows that whoever writes has before him
    rows: Rows = field(default_factory=dict)
    _given: int = 0

    def token(self) -> str:
        """A value that nobody has written."""
        self._given += 1
        return f"{self.history}.{self._given}"

    def note(self) -> str:
        """A note; now and then one that somebody does not take."""
        said = self.token()
        trick = self.chance.choice([*self.tricks, *[""] * 7])
        return {
            "long": f"{said} {'x' * 80}",
            "odd": f"{said} \N{CYRILLIC CAPITAL LETTER ZHE}",
            "refused": f"{said} !",
            "refused here": f"{said} ?",
        }.get(trick, said)

    def key(self) -> int:
        """The key of a row, that may be there or not."""
        return self.history * 10 + self.chance.randrange(KEYS)

    def there(self, table: str) -> int:
        """The key of a row, most often of one that is there."""
        keys = sorted(r["id"] for (name, _), r in self.rows.items() if name == table)
        drawn, other = self.chance.random(), self.key()
        return self.chance.choice(keys) if keys and drawn < 0.9 else other

    def free(self, table: str) -> int:
        """A key for a new row, most often one that no row has."""
        keys = {r["id"] for (name, _), r in self.rows.items() if name == table}
        all_ = range(self.history * 10, self.history * 10 + KEYS)
        left = [key for key in all_ if key not in keys]
        drawn, other = self.chance.random(), self.key()
        return self.chance.choice(left) if left and drawn < 0.9 else other

    def code(self) -> str:
        """One of few codes, most often one that no order has here.

        So two sites give the same one to different orders, and neither is refused.
        """
        every = [f"{self.history}{code}" for code in CODES]
        taken = {
            row["code"] for (name, _), row in self.rows.items() if name == "orders"
        }
        free = [code for code in every if code not in taken]
        drawn, other = self.chance.random(), self.chance.choice(every)
        return self.chance.choice(free) if free and drawn < 0.8 else other


def insert(table: str, **values: object) -> Statement:
    """INSERT of one row."""
    return sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, values)),
        sql.SQL(", ").join(map(sql.Literal, values.values())),
    )


def update(table: str, key: int, **values: object) -> Statement:
    """UPDATE of one row."""
    sets = [
        sql.SQL("{} = {}").format(sql.Identifier(c), sql.Literal(v))
        for c, v in values.items()
    ]
    return sql.SQL("UPDATE {} SET {} WHERE id = {}").format(
        sql.Identifier(table), sql.SQL(", ").join(sets), sql.Literal(key)
    )


def delete(table: str, key: int) -> Statement:
    """DELETE of one row."""
    return sql.SQL("DELETE FROM {} WHERE id = {}").format(
        sql.Identifier(table), sql.Literal(key)
    )


def _new(pen: Pen, table: str, key: int, **values: object) -> Statement:
    return insert(
        table, id=key, h=pen.history, uid=pen.token(), note=pen.note(), **values
    )


def _order(pen: Pen, key: int | None = None) -> Statement:
    return _new(
        pen, "orders", pen.free("orders") if key is None else key, code=pen.code()
    )


def _line(pen: Pen, order: int | None = None) -> Statement:
    first = pen.there("orders") if order is None else order
    second = first if pen.chance.random() < 0.5 else pen.there("orders")
    codes = sorted(
        row["code"] for (table, _), row in pen.rows.items() if table == "orders"
    )
    code = pen.chance.choice(codes) if codes and pen.chance.random() < 0.4 else None
    return _new(
        pen, "lines", pen.free("lines"), order_id=first, second_id=second, code=code
    )


def _person(pen: Pen) -> Statement:
    father = pen.there("people") if pen.chance.random() < 0.8 else 0
    mother = father if pen.chance.random() < 0.5 else 0
    return _new(pen, "people", pen.free("people"), father=father, mother=mother)


def _table(pen: Pen) -> str:
    return pen.chance.choice(("orders", "orders", "lines", "people"))


def _note(pen: Pen) -> list[Statement]:
    table = _table(pen)
    return [update(table, pen.there(table), note=pen.note())]


def _delete(pen: Pen) -> list[Statement]:
    table = _table(pen)
    return [delete(table, pen.there(table))]


def _rekey(pen: Pen) -> list[Statement]:
    table = _table(pen)
    return [update(table, pen.there(table), id=pen.free(table))]


def _rekey_and_refer(pen: Pen) -> list[Statement]:
    to = pen.free("orders")
    return [update("orders", pen.there("orders"), id=to), _line(pen, to)]


def _point(pen: Pen) -> list[Statement]:
    if pen.chance.random() < 0.3:
        to = pen.there("people")
        return [update("people", pen.there("people"), father=to, mother=to)]
    to = pen.there("orders")
    return [update("lines", pen.there("lines"), order_id=to, second_id=to)]


def _family(pen: Pen) -> list[Statement]:
    key = pen.free("orders")
    lines = [_line(pen, key) for _ in range(pen.chance.randint(1, 2))]
    return [_order(pen, key), *lines]


def _again(pen: Pen) -> list[Statement]:
    key = pen.there("orders")
    return [delete("orders", key), _order(pen, key)]


def _code(pen: Pen) -> list[Statement]:
    return [update("orders", pen.there("orders"), code=pen.code())]


def _swap_codes(pen: Pen) -> list[Statement]:
    codes = {r["id"]: r["code"] for (t, _), r in pen.rows.items() if t == "orders"}
    if len(codes) < 2:
        return [_order(pen)]
    first, second = pen.chance.sample(sorted(codes), 2)
    return [
        update("orders", first, code=codes[second]),
        update("orders", second, code=codes[first]),
    ]


#: By name, what is done; in one transaction. What stands here often happens often.
ACTS: dict[str, tuple[int, Callable[[Pen], list[Statement]]]] = {
    "order": (4, lambda pen: [_order(pen)]),
    "line": (4, lambda pen: [_line(pen)]),
    "person": (3, lambda pen: [_person(pen)]),
    "note": (4, _note),
    "stock": (1, lambda pen: [update("stock", pen.history * 10, note=pen.note())]),
    "key": (3, _rekey),
    "key and refer": (2, _rekey_and_refer),
    "code": (7, _code),
    "swap codes": (1, _swap_codes),
    "delete": (6, _delete),
    "point": (2, _point),
    "family": (3, _family),
    "again": (1, _again),
}


def draw(pen: Pen) -> tuple[str, str]:
    """Who does what next: a site, and the name of the act."""
    weights = [weight for weight, _ in ACTS.values()]
    [name] = pen.chance.choices([*ACTS], weights)
    return pen.chance.choice(WHO), name


def statements(pen: Pen, name: str, rows: Rows) -> list[Statement]:
    """The statements of an act, for whoever has these rows before him."""
    pen.rows = rows
    return ACTS[name][1](pen)


def first(history: int) -> list[Statement]:
    """The rows that a history begins with."""
    key = history * 10
    common = {"h": history, "note": ""}

    def row(table: str, n: int, **values: object) -> Statement:
        uid = f"{history}.{table}{n}"
        return insert(table, id=key + n, uid=uid, **common, **values)

    return [
        row("orders", 0, code=f"{history}A"),
        row("orders", 1, code=f"{history}B"),
        row("lines", 0, order_id=key, second_id=key, code=f"{history}A"),
        row("lines", 1, order_id=key, second_id=key + 1),
        row("people", 0),
        row("people", 1, father=key, mother=key),
        row("stock", 0),
    ]
