"""The tables of a world: three levels, every kind of key and of reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

#: Columns of the key of each kind, with their types.
KINDS = {
    "int": (("id", "int"),),
    "text": (("id", "text"),),
    "composite": (("k", "int"), ("n", "text")),
}
#: The other columns of every table; `note` is what seldom matters.
COMMON = "h int NOT NULL, v int, w int, t text, note text"
VALUES = ("h", "v", "w", "t", "note")
#: Keys from here on belong to a partition that is attached and detached.
LATER = 900_000

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """Columns that name a row of another table, or of the same."""

    table: str
    name: str
    target: str
    keyed: tuple[str, ...]
    types: tuple[str, ...]
    nullable: bool
    indexed: bool
    #: what the foreign key does; None without a foreign key
    actions: str | None

    @property
    def columns(self) -> tuple[str, ...]:
        """They are called by the columns of the key that they name."""
        return tuple(f"{self.name}_{column}" for column in self.keyed)

    @property
    def constraint(self) -> str:
        """The name of the foreign key."""
        return f"{self.table}_{self.name}"

    @property
    def to_itself(self) -> bool:
        """Whether it names rows of its own table."""
        return self.table == self.target

    def declared(self) -> list[str]:
        """What CREATE TABLE says of it."""
        null = "" if self.nullable else " NOT NULL"
        pairs = zip(self.columns, self.types, strict=True)
        found = [f"{column} {kind}{null}" for column, kind in pairs]
        if self.actions is not None:
            found.append(
                f"CONSTRAINT {self.constraint} FOREIGN KEY ({', '.join(self.columns)})"
                f" REFERENCES {self.target} ({', '.join(self.keyed)}) {self.actions}"
            )
        return found


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the master."""

    name: str
    kind: str
    partitioned: bool
    references: tuple[Reference, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return tuple(name for name, _ in KINDS[self.kind])

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns."""
        named = (c for one in self.references for c in one.columns)
        return (*self.key, *VALUES, *named)

    def given(self, history: int, number: int, *, later: bool = False) -> Key:
        """A key of a history."""
        if self.kind == "int":
            return (history * 100 + number,)
        if self.kind == "text":
            return (f"{history}-{number}",)
        return (history + (LATER if later else 0), str(number))

    def ddl(self) -> list[str]:
        """The statements that create it."""
        declared = [f"{name} {kind}" for name, kind in KINDS[self.kind]]
        declared += [COMMON, *(d for one in self.references for d in one.declared())]
        declared.append(f"PRIMARY KEY ({', '.join(self.key)})")
        parted = " PARTITION BY RANGE (k)" if self.partitioned else ""
        found = [f"CREATE TABLE {self.name} ({', '.join(declared)}){parted}"]
        if self.partitioned:
            found += [
                (
                    f"CREATE TABLE {self.name}_first PARTITION OF {self.name}"
                    f" FOR VALUES FROM (MINVALUE) TO ({LATER})"
                ),
                f"CREATE TABLE {self.name}_later (LIKE {self.name})",
            ]
        return found + [
            f"CREATE INDEX ON {self.name} ({', '.join(one.columns)})"
            for one in self.references
            if one.indexed
        ]

    def attach(self) -> str:
        """The statement that attaches the later partition."""
        return (
            f"ALTER TABLE {self.name} ATTACH PARTITION {self.name}_later"
            f" FOR VALUES FROM ({LATER}) TO (MAXVALUE)"
        )

    def detach(self) -> str:
        """The statement that detaches it."""
        return f"ALTER TABLE {self.name} DETACH PARTITION {self.name}_later"


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables, parents first."""

    tables: tuple[Table, ...]

    def __getitem__(self, name: str) -> Table:
        return next(one for one in self.tables if one.name == name)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the tables."""
        return tuple(one.name for one in self.tables)

    def emptied_with(self, name: str) -> set[str]:
        """The tables that TRUNCATE ... CASCADE of one of them empties."""
        found = {name}
        for one in self.tables:
            linked = {r.target for r in one.references if r.actions is not None}
            if linked & found:
                found.add(one.name)
        return found


def draw(chance: Random) -> Schema:
    """Draw what the tables of a world are like."""
    targets: dict[str, list[tuple[str, str]]] = {"a": [], "b": [("a", "a")]}
    targets["c"] = [("b", "b")]
    if chance.random() < 0.3:
        targets = {"a": [], "a2": [], **targets}
        targets[chance.choice("bc")].append(("a2", "a2"))
    for child, name, target, share in (
        ("b", "other", "a", 0.2),
        ("c", "a", "a", 0.3),
        ("c", "other", "b", 0.2),
        ("a", "up", "a", 0.25),
        ("b", "up", "b", 0.2),
        ("c", "up", "c", 0.1),
    ):
        if chance.random() < share:
            targets[child].append((name, target))
    kinds = {name: chance.choice([*KINDS]) for name in targets}
    made = []
    for name, named in targets.items():
        parted = kinds[name] == "composite" and chance.random() < 0.5
        references = tuple(
            _reference(chance, name, label, target, kinds[target], parted)
            for label, target in named
        )
        made.append(Table(name, kinds[name], parted, references))
    return Schema(tuple(made))


def _reference(
    chance: Random, table: str, name: str, target: str, kind: str, parted: bool
) -> Reference:
    nullable = name == "up" or chance.random() < 0.6
    deleted = ["", "ON DELETE CASCADE", "ON DELETE CASCADE"]
    deleted += ["ON DELETE SET NULL"] if nullable else []
    actions = " ".join((chance.choice(deleted), chance.choice(("", _FOLLOWS))))
    free = chance.random() < 0.25 or (parted and table == target)
    return Reference(
        table=table,
        name=name,
        target=target,
        keyed=tuple(column for column, _ in KINDS[kind]),
        types=tuple(type_ for _, type_ in KINDS[kind]),
        nullable=nullable,
        indexed=chance.random() < 0.7,
        actions=None if free else actions,
    )


_FOLLOWS = "ON UPDATE CASCADE"


def shapes(schema: Schema) -> set[str]:
    """What is worth counting about tables."""
    found: set[str] = set()
    for table in schema.tables:
        found.add(f"{table.kind} key")
        found |= {"partitioned"} if table.partitioned else set()
        for one in table.references:
            found |= _shapes(one)
    return found


def _shapes(one: Reference) -> set[str]:
    found = {"no index on a reference"} if not one.indexed else set()
    if one.actions is None:
        return found | {"no foreign key"}
    return found | {action for action in ACTIONS if action in one.actions}


ACTIONS = ("ON DELETE CASCADE", "ON DELETE SET NULL", _FOLLOWS)


def same(one: str, columns: Sequence[str], other: str, others: Sequence[str]) -> str:
    """The condition that columns of two tables are equal."""
    pairs = zip(columns, others, strict=True)
    return " AND ".join(f"{one}.{mine} = {other}.{theirs}" for mine, theirs in pairs)
