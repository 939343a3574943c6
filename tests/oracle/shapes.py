"""Tables that the oracle invents: keys, types, constraints, references, subsets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st
from psycopg import sql

from masters.log.snapshot_log import ROWID

#: Types, and values as text: few, so that everybody meets everybody, and corners.
POOLS: dict[str, tuple[str, ...]] = {
    "int": ("0", "1", "2", "3", "4", "-2147483648"),
    "text": ("a", "b", "", "Ä%s:x", "'\\"),
    "uuid": tuple(f"00000000-0000-0000-0000-00000000000{n}" for n in range(5)),
    "numeric": ("1", "2", "-0.5", "1.0", "1.00", "NaN", "1e40"),
    "float8": ("0", "0.1", "NaN", "Infinity", "-0"),
    "char(3)": ("a", "ab", "", "ab "),
    "timestamptz": ("2000-01-01 00:00+00", "infinity", "2024-03-31 02:30:00.000001+02"),
    "date": ("2000-01-01", "0044-03-15 BC", "infinity"),
    "jsonb": ("{}", '{"a": 1}', "null"),
    "json": ("{}", '{"a": 1}', '{"a":1}', "null"),
    "int[]": ("{}", "{1,NULL}", "{{1,2},{3,4}}"),
    "bytea": ("\\x", "\\x00ff"),
    "boolean": ("t", "f"),
    "interval": ("1 day", "1 mon", "30 days", "24:00:00"),
    "int4range": ("empty", "[1,5)", "(,3)"),
}
KEY_TYPES = ("int", "text", "uuid", "date")
#: A unique constraint needs a column in which a free value can be found.
UNIQUE_TYPES = ("int", "text", "uuid")
ON_DELETE = ("CASCADE", "SET NULL", "NO ACTION", "RESTRICT")
REGION = "region"
REGIONS = ("jfk", "lga", "both", "none")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an invented table."""

    name: str
    type: str
    nullable: bool = True

    def value(self, number: int) -> str | None:
        """One of the few values of the column; now and then NULL."""
        pool = REGIONS if self.name == REGION else POOLS[self.type]
        values = (*pool, None) if self.nullable else pool
        return values[number % len(values)]


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key to the primary key of a table that was invented before."""

    parent: str
    columns: tuple[str, ...]
    on_delete: str
    deferrable: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """An invented table, and what the sites have of it."""

    name: str
    columns: tuple[Column, ...]
    #: of the primary key; empty for a table without one
    key: tuple[str, ...]
    with_rowid: bool
    #: columns of each unique constraint, and whether it is checked at commit
    uniques: tuple[tuple[tuple[str, ...], bool], ...]
    reference: Reference | None
    #: `{site}` is the name of the site
    condition: str | None
    #: a column that the snapshots leave out
    left_out: str | None
    updatable: bool
    #: methods that settle update, uniqueness and delete conflicts, "" for none
    methods: tuple[str, str, str]

    def column(self, name: str) -> Column:
        """The column of that name."""
        return next(c for c in self.columns if c.name == name)

    @property
    def values(self) -> tuple[Column, ...]:
        """The columns outside the key, or all where there is none."""
        return tuple(c for c in self.columns if c.name not in self.key)

    def carried(self) -> list[str] | None:
        """The columns of a snapshot, as `snapshots.create` takes them."""
        if self.left_out is None:
            return None
        rowid = [ROWID] if self.with_rowid else []
        return [*(c.name for c in self.columns if c.name != self.left_out), *rowid]

    def at_site(self) -> Shape:
        """The shape of its snapshots."""
        columns = tuple(c for c in self.columns if c.name != self.left_out)
        uniques = tuple(u for u in self.uniques if self.left_out not in u[0])
        return replace(self, columns=columns, uniques=uniques)

    def ddl(self) -> sql.Composed:
        """The statement that creates the table at the master."""
        parts = [
            sql.SQL("{} {}{}").format(
                sql.Identifier(c.name),
                sql.SQL(c.type),
                sql.SQL("" if c.nullable else " NOT NULL"),
            )
            for c in self.columns
        ]
        if self.key:
            parts.append(sql.SQL("PRIMARY KEY ({})").format(listed(self.key)))
        parts += [
            sql.SQL("UNIQUE ({}){}").format(listed(columns), _checked(deferred))
            for columns, deferred in self.uniques
        ]
        if self.reference is not None:
            parts.append(
                sql.SQL("FOREIGN KEY ({}) REFERENCES {} ON DELETE {}{}").format(
                    listed(self.reference.columns),
                    sql.Identifier(self.reference.parent),
                    sql.SQL(self.reference.on_delete),
                    _checked(self.reference.deferrable),
                )
            )
        return sql.SQL("CREATE TABLE {} ({})").format(
            sql.Identifier(self.name), sql.SQL(", ").join(parts)
        )


def listed(names: tuple[str, ...]) -> sql.Composed:
    """Names of columns, quoted and separated by commas."""
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _checked(deferred: bool) -> sql.SQL:
    return sql.SQL(" DEFERRABLE INITIALLY DEFERRED" if deferred else "")


@st.composite
def shapes(draw: st.DrawFn) -> tuple[Shape, ...]:
    """One to three tables; later ones may refer to earlier ones."""
    made: list[Shape] = []
    for number in range(draw(st.integers(1, 3))):
        made.append(draw(_shape(f"t{number}", tuple(made))))
    return tuple(made)


@st.composite
def _shape(draw: st.DrawFn, name: str, earlier: tuple[Shape, ...]) -> Shape:
    key_types = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=0, max_size=3))
    key = tuple(Column(f"k{n}", kind, False) for n, kind in enumerate(key_types))
    # With ROWID the key is a unique value like others: it must have a free one.
    free = any(c.type in UNIQUE_TYPES for c in key)
    with_rowid = not key or (free and draw(st.booleans()))
    values = draw(st.lists(_value(), min_size=1, max_size=4))
    columns = [Column(f"v{n}", *one) for n, one in enumerate(values)]
    condition = draw(st.sampled_from(CONDITIONS))
    if condition and REGION in condition:
        columns.append(Column(REGION, "text", False))
    reference = draw(_reference(earlier))
    if reference is not None:
        parent = next(s for s in earlier if s.name == reference.parent)
        columns += [
            Column(own, parent.column(theirs).type)
            for own, theirs in zip(reference.columns, parent.key, strict=True)
        ]
    spare = [c.name for c in columns if c.nullable and c.name not in ("v0", REGION)]
    return Shape(
        name=name,
        columns=(*key, *columns),
        key=tuple(c.name for c in key),
        with_rowid=with_rowid,
        uniques=draw(_uniques(tuple(columns))),
        reference=reference,
        condition=condition,
        left_out=draw(st.sampled_from([None, None, *spare])),
        updatable=draw(st.integers(0, 5)) < 5,
        methods=draw(_METHODS),
    )


def _value() -> st.SearchStrategy[tuple[str, bool]]:
    return st.tuples(st.sampled_from(sorted(POOLS)), st.booleans())


@st.composite
def _uniques(
    draw: st.DrawFn, columns: tuple[Column, ...]
) -> tuple[tuple[tuple[str, ...], bool], ...]:
    fit = [c.name for c in columns if c.type in UNIQUE_TYPES and c.name != REGION]
    if not fit:
        return ()
    chosen = draw(st.lists(st.sampled_from(fit), max_size=2, unique=True))
    if len(chosen) == 2 and draw(st.booleans()):
        return ((tuple(chosen), draw(st.booleans())),)
    return tuple(((one,), draw(st.booleans())) for one in chosen)


@st.composite
def _reference(draw: st.DrawFn, earlier: tuple[Shape, ...]) -> Reference | None:
    parent = draw(st.sampled_from([None, *(s for s in earlier if s.key)]))
    if parent is None:
        return None
    return Reference(
        parent=parent.name,
        columns=tuple(f"p{n}" for n in range(len(parent.key))),
        on_delete=draw(st.sampled_from(ON_DELETE)),
        deferrable=draw(st.booleans()),
    )


CONDITIONS = (None, None, f"{REGION} IN ('{{site}}', 'both')", "v0 IS NOT NULL")
_METHODS = st.tuples(
    st.sampled_from(["", "overwrite", "discard"]),
    st.sampled_from(["", "discard"]),
    st.sampled_from(["", "ignore", "restore"]),
)
