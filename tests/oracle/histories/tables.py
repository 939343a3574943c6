"""The tables of a world of rows: references of every action, triggers, rules."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.oracle.histories.ledger import References

ACTIONS = ("CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION", "RESTRICT")
TABLES = ("orders", "lines", "people", "stock", "journal")
#: A row that is always there: what SET DEFAULT makes of a reference.
NOBODY = 0

REFERENCES: References = {
    "lines": {
        "order_id": ("orders", "id"),
        "second_id": ("orders", "id"),
        "code": ("orders", "code"),
    },
    "people": {"father": ("people", "id"), "mother": ("people", "id")},
}

#: How far a row that differs from what a site wrote may be explained by a trigger.
STAMPED = {"orders": {"stamp"}, "stock": {"n"}}

#: The rows that are there from the beginning.
FIRST = (
    f"INSERT INTO orders VALUES ({NOBODY}, 0, 'nobody', '', NULL)",
    f"INSERT INTO people VALUES ({NOBODY}, 0, 'nobody', '', NULL, NULL)",
)

#: Methods of rules, and what they are drawn for: a kind of conflict or a constraint.
METHODS = {
    "overwrite": ("update",),
    "discard": ("update", "orders_code", "orders_pkey"),
    "ignore": ("delete",),
    "restore": ("delete",),
    "cascade": ("delete",),
    "append_site_name": ("orders_code",),
    "append_sequence": ("orders_code",),
}

#: How much more often than others a method is drawn that few conflicts fit.
_WEIGHTS = {
    "append_site_name": 14,
    "append_sequence": 14,
    "cascade": 8,
    "discard": 3,
    "ignore": 6,
    "restore": 6,
    "overwrite": 2,
}

#: Of the master's users; "journals" is one of the sites' users.
TRIGGERS = ("writes", "stamps", "refuses", "journals")
#: More of the sites' users.
AT_SITES = ("stamps", "refuses")


@dataclass(frozen=True, slots=True)
class Key:
    """A foreign key."""

    table: str
    column: str
    on_delete: str
    on_update: str
    deferrable: str

    @property
    def name(self) -> str:
        """Of the constraint."""
        return f"{self.table}_{self.column}"

    def ddl(self) -> str:
        """The clause of CREATE TABLE."""
        target, column = REFERENCES[self.table][self.column]
        return (
            f"CONSTRAINT {self.name} FOREIGN KEY ({self.column})"
            f" REFERENCES {target} ({column})"
            f" ON DELETE {self.on_delete} ON UPDATE {self.on_update} {self.deferrable}"
        )


@dataclass(frozen=True, slots=True)
class Schema:
    """What is drawn of a world of rows."""

    keys: tuple[Key, ...]
    triggers: frozenset[str]
    #: by table and kind ("update", "delete") or constraint, a method
    rules: tuple[tuple[str, str, str], ...]
    #: the unique value of orders is checked at commit
    deferrable: bool
    #: the encoding of the master
    encoding: str
    #: the rows of `lines` that one of the sites has
    condition: str | None
    #: the master takes no more than this many characters of a note, from a moment on
    width: int | None
    #: the round from which on that holds: after the first one values are cut
    narrowed: int
    error_action: str
    at_sites: frozenset[str]

    def key(self, table: str, column: str) -> Key:
        """The foreign key of a column."""
        return next(k for k in self.keys if (k.table, k.column) == (table, column))

    @property
    def references(self) -> References:
        """The columns that have a foreign key."""
        drawn = {(k.table, k.column) for k in self.keys}
        return {
            table: {c: t for c, t in columns.items() if (table, c) in drawn}
            for table, columns in REFERENCES.items()
        }

    def ddl(self) -> list[str]:
        """The statements that create the tables at the master."""
        common = "id int PRIMARY KEY, h int NOT NULL, uid text NOT NULL, note text"
        of = {
            table: ", ".join(k.ddl() for k in self.keys if k.table == table)
            for table in REFERENCES
        }
        deferrable = " DEFERRABLE INITIALLY DEFERRED" if self.deferrable else ""
        return [
            (
                f"CREATE TABLE orders ({common}, code text, stamp text,"
                f" CONSTRAINT orders_code UNIQUE (code){deferrable})"
            ),
            (
                f"CREATE TABLE lines ({common}, order_id int DEFAULT {NOBODY},"
                f" second_id int DEFAULT {NOBODY}, code text, {of['lines']})"
            ),
            (
                f"CREATE TABLE people ({common}, father int DEFAULT {NOBODY},"
                f" mother int DEFAULT {NOBODY}, {of['people']})"
            ),
            f"CREATE TABLE stock ({common}, n int NOT NULL DEFAULT 0)",
            f"CREATE TABLE journal ({common})",
        ]


def draw(chance: Random) -> Schema:
    """Draw what a world of rows is like."""
    deferrable = chance.random() < 0.3
    keys = tuple(
        _key(chance, table, column, unique_later=deferrable)
        for table, columns in REFERENCES.items()
        for column in columns
    )
    narrow = chance.random() < 0.3
    return Schema(
        keys=tuple(k for k in keys if k is not None),
        triggers=frozenset(t for t in TRIGGERS if chance.random() < 0.4),
        rules=_rules(chance),
        deferrable=deferrable,
        encoding="LATIN1" if chance.random() < 0.3 else "UTF8",
        condition="id % 2 = 0" if chance.random() < 0.3 else None,
        width=60 if narrow else None,
        narrowed=chance.randrange(8),
        error_action="skip_row" if chance.random() < 0.3 else "queue",
        at_sites=frozenset(t for t in AT_SITES if chance.random() < 0.3),
    )


def _key(chance: Random, table: str, column: str, *, unique_later: bool) -> Key | None:
    late = "DEFERRABLE INITIALLY " + chance.choice(("DEFERRED", "IMMEDIATE"))
    known = ACTIONS if column != "code" else ACTIONS[:2]
    made = Key(
        table=table,
        column=column,
        on_delete=chance.choice(known),
        on_update=chance.choice(known),
        deferrable=late if chance.random() < 0.35 else "",
    )
    # PostgreSQL refers to no constraint that is checked at commit.
    return None if column == "code" and unique_later else made


def _rules(chance: Random) -> tuple[tuple[str, str, str], ...]:
    def one(kind: str) -> str:
        known = ["", *(m for m, kinds in METHODS.items() if kind in kinds)]
        weights = [_WEIGHTS.get(method, 1) for method in known]
        return chance.choices(known, weights)[0]

    made = []
    for table in TABLES[:3]:
        made += [(table, "update", one("update")), (table, "delete", one("delete"))]
    for constraint in ("orders_code", "orders_pkey"):
        made.append(("orders", constraint, one(constraint)))
    return tuple(rule for rule in made if rule[2])


def audit_ddl(tables: tuple[str, ...]) -> list[str]:
    """What notes at a master each change of a row, and each receipt that arrives."""
    made = [
        "CREATE TABLE audit (seq bigserial, xid text, tab text, old jsonb, new jsonb)",
        "CREATE TABLE receipt (id text PRIMARY KEY, site text NOT NULL)",
        "CREATE TABLE arrival (seq bigserial, id text, xid text)",
        """
        CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO public.audit (xid, tab, old, new)
            VALUES (pg_current_xact_id()::text, TG_ARGV[0],
                    CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END,
                    CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END);
            RETURN NULL;
        END $$
        """,
        """
        CREATE FUNCTION note_arrival() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO public.arrival (id, xid)
            VALUES (NEW.id, pg_current_xact_id()::text);
            RETURN NULL;
        END $$
        """,
        (
            "CREATE TRIGGER arrival AFTER INSERT ON receipt"
            " FOR EACH ROW EXECUTE FUNCTION note_arrival()"
        ),
        "ALTER TABLE receipt ENABLE ALWAYS TRIGGER arrival",
    ]
    for table in tables:
        made += [
            (
                f"CREATE TRIGGER zz_audit AFTER INSERT OR UPDATE OR DELETE ON {table}"
                f" FOR EACH ROW EXECUTE FUNCTION note_change('{table}')"
            ),
            f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER zz_audit",
        ]
    return made


#: What users' triggers do at the master.
TRIGGER_DDL = {
    "writes": (
        """
        CREATE FUNCTION count_lines() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE public.stock SET n = n + 1 WHERE h = NEW.h;
            RETURN NULL;
        END $$
        """,
        (
            "CREATE TRIGGER counts AFTER INSERT ON lines"
            " FOR EACH ROW EXECUTE FUNCTION count_lines()"
        ),
    ),
    "stamps": (
        """
        CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            NEW.stamp := pg_current_xact_id()::text;
            RETURN NEW;
        END $$
        """,
        (
            "CREATE TRIGGER stamps BEFORE INSERT OR UPDATE ON orders"
            " FOR EACH ROW EXECUTE FUNCTION stamp()"
        ),
    ),
    "refuses": (
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.note LIKE '%!' THEN
                RAISE EXCEPTION 'not that' USING ERRCODE = 'check_violation';
            END IF;
            RETURN NEW;
        END $$
        """,
        (
            "CREATE TRIGGER refuses BEFORE INSERT OR UPDATE ON lines"
            " FOR EACH ROW EXECUTE FUNCTION refuse()"
        ),
        (
            "CREATE TRIGGER refuses BEFORE INSERT OR UPDATE ON orders"
            " FOR EACH ROW EXECUTE FUNCTION refuse()"
        ),
    ),
}


#: What triggers of a site's users do with a change that is made there.
SITE_TRIGGER_DDL = {
    "stamps": (
        """
        CREATE FUNCTION stamp_here() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF snaptide.comes_from() IS NULL THEN
                NEW.stamp := 'here ' || pg_current_xact_id()::text;
            END IF;
            RETURN NEW;
        END $$
        """,
        """
        CREATE TRIGGER stamps BEFORE INSERT OR UPDATE ON "snap$_orders"
        FOR EACH ROW EXECUTE FUNCTION stamp_here()
        """,
    ),
    "refuses": (
        """
        CREATE FUNCTION refuse_here() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF snaptide.comes_from() IS NULL AND NEW.note LIKE '%?' THEN
                RAISE EXCEPTION 'not here' USING ERRCODE = 'check_violation';
            END IF;
            RETURN NEW;
        END $$
        """,
        """
        CREATE TRIGGER refuses BEFORE INSERT OR UPDATE ON "snap$_orders"
        FOR EACH ROW EXECUTE FUNCTION refuse_here()
        """,
        """
        CREATE TRIGGER refuses BEFORE INSERT OR UPDATE ON "snap$_lines"
        FOR EACH ROW EXECUTE FUNCTION refuse_here()
        """,
    ),
}


def journal_ddl(first: int) -> list[str]:
    """A trigger of a site's users, which writes another snapshot than it is on.

    Parameters:
        first: the first of the keys that are given at the site.
    """
    return [
        f"CREATE SEQUENCE journal_id START {first}",
        """
        CREATE FUNCTION journal() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            number int;
        BEGIN
            IF coalesce(current_setting('snaptide.origin', true), '') = '' THEN
                number := nextval('public.journal_id');
                INSERT INTO public.journal (id, h, uid, note)
                VALUES (number, NEW.h, 'j' || number, NEW.note);
            END IF;
            RETURN NULL;
        END $$
        """,
        """
        CREATE TRIGGER journals AFTER INSERT OR UPDATE ON "snap$_orders"
        FOR EACH ROW EXECUTE FUNCTION journal()
        """,
    ]
