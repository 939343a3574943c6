"""Finding rules (CREATE RULE) by which something else is done instead of a write.

Its count of rows is then that of the other statement, and may be the expected one. Rows
that a rule with a condition leaves out are missing from the count, which is an error.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Text, func
from sqlalchemy.dialects.postgresql import OID

from sites.names import QualifiedName

_OF = "ev_class", "ev_type", "ev_qual", "is_instead", "rulename"
_RULE = sa.table("pg_rewrite", *map(sa.column, _OF)).c


def message(table: QualifiedName | str, rule: str) -> str:
    """What such a rule does, without a full stop."""
    return (
        f"{table} has a rule {rule} (CREATE RULE ... DO INSTEAD), so that what is "
        "written to it goes elsewhere"
    )


def found() -> ColumnElement[Any]:
    """Such a rule of one of the tables that `staged.described_columns` names.

    It is a list of the table's oid and the rule's name; NULL if there is none.
    """
    oids = sa.cast(sa.bindparam("its_oid", None, Text), sa.ARRAY(OID()))
    both = func.jsonb_build_array(
        sa.cast(_RULE.ev_class, sa.BigInteger), _RULE.rulename
    )
    return (
        sa.select(both)
        .where(
            _RULE.ev_class == sa.any_(oids),
            _RULE.ev_type != sa.literal_column("'1'"),
            _RULE.is_instead,
            sa.cast(_RULE.ev_qual, Text) == "<>",
        )
        .limit(1)
        .scalar_subquery()
    )
