"""The sequence behind a column of a master table, and whether numbers can be leased."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Text, bindparam, exists, select, text

from masters.catalog import group_schema
from masters.errors import CannotLease
from sites.names import QualifiedName, identifier

#: The highest value of the types that a leased column may have.
HIGHEST = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A sequence that gives a column its numbers."""

    #: as the catalog prints it, quoted and with its schema
    sequence: str
    #: its INCREMENT BY
    step: int
    #: the last number that sequence and column can have, and the first one
    last: int
    first: int
    #: the number drawn last; None if none was
    position: int | None

    @property
    def room(self) -> int:
        """How many numbers are left."""
        if self.position is None:
            return (self.last - self.first) // self.step + 1
        return max(0, (self.last - self.position) // self.step)

    @property
    def share(self) -> float:
        """The share of all numbers that has been drawn or leased; 1: all of them."""
        total = (self.last - self.first) // self.step + 1
        return 1 - self.room / total if total > 0 else 1.0


def source_of(connection: Connection, table: QualifiedName, column: str) -> Source:
    """The sequence of a column, from which sites can lease numbers.

    Parameters:
        connection: to the master.

    Raises:
        CannotLease: there is none, or it cannot be leased from; the message says why.
    """
    name = f"Column {column} of {table}"
    row = connection.execute(
        _SOURCE, {"table": identifier(table).as_string(), "column": column}
    ).one_or_none()
    if row is None:
        raise CannotLease(f"{name} draws no numbers from a sequence.")
    if row.type not in HIGHEST:
        raise CannotLease(f"{name} is of type {row.type}, not a whole number.")
    if row.cycles:
        raise CannotLease(
            f"{name}: sequence {row.sequence} begins again at its end (CYCLE), so its "
            "numbers come twice."
        )
    if row.bound and not row.usable:
        raise CannotLease(
            f"{name}: {row.login} is the login of a grant, which leases no numbers: a "
            "site has to give its own, as by uuidv7, or connects as a user that is no "
            "login of a publication."
        )
    if not row.usable:
        raise CannotLease(
            f"{name}: Snaptide's user may not draw from {row.sequence}. Run: GRANT "
            f"USAGE ON SEQUENCE {row.sequence} TO {row.login}"
        )
    if row.increment in (1, -1) and _in_a_group(connection, table):
        raise CannotLease(
            f"{name}: the table belongs to a replication group, whose other masters "
            "have sequences of their own. Give the sequence of each master numbers "
            f"that no other one has, as by ALTER SEQUENCE {row.sequence} INCREMENT BY "
            "8 RESTART WITH n, with another n at each"
        )
    highest = HIGHEST[row.type]
    up = row.increment > 0
    lowest = -highest - 1
    return Source(
        sequence=row.sequence,
        step=row.increment,
        first=row.begins,
        last=min(row.most, highest) if up else max(row.least, lowest),
        position=row.position,
    )


def _in_a_group(connection: Connection, table: QualifiedName) -> bool:
    found = exists().where(
        group_schema.c.table_schema == table.schema,
        group_schema.c.table_name == table.name,
    )
    return bool(connection.scalar(select(found)))


#: An identity column owns its sequence; another one names it in its default.
_SOURCE = text("""
SELECT format('%I.%I', n.nspname, c.relname) AS sequence,
       format_type(COALESCE(NULLIF(y.typbasetype, 0), a.atttypid), NULL) AS type,
       s.seqincrement AS increment, s.seqmax AS most, s.seqmin AS least,
       s.seqstart AS begins, s.seqcycle AS cycles, quote_ident(session_user) AS login,
       has_sequence_privilege(c.oid, 'USAGE') AS usable,
       EXISTS (SELECT FROM pg_roles WHERE rolname = 'snaptide_site'
               AND pg_has_role(oid, 'USAGE')) AS bound,
       CASE WHEN has_sequence_privilege(c.oid, 'USAGE')
            THEN pg_sequence_last_value(c.oid) END AS position
FROM pg_attribute a
JOIN pg_type y ON y.oid = a.atttypid
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
JOIN pg_depend p
  ON (a.attidentity <> '' AND p.deptype = 'i' AND p.classid = 'pg_class'::regclass
      AND p.refclassid = 'pg_class'::regclass
      AND (p.refobjid, p.refobjsubid) = (a.attrelid, a.attnum))
  OR (p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid
      AND p.refclassid = 'pg_class'::regclass
      AND pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(''%''::regclass)')
JOIN pg_class c ON c.relkind = 'S'
  AND c.oid = CASE WHEN p.deptype = 'i' THEN p.objid ELSE p.refobjid END
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_sequence s ON s.seqrelid = c.oid
WHERE a.attrelid = to_regclass(:table) AND a.attname = :column AND NOT a.attisdropped
""").bindparams(bindparam("table", type_=Text), bindparam("column", type_=Text))
