"""The foreign keys of a table, by what a user calls them."""

from __future__ import annotations

from sites.tables.table import ForeignKey, Table


class NotOneKey(ValueError):
    """A table has no such foreign key, or more than one; the message says which."""


def named(table: Table, name: str) -> ForeignKey:
    """The foreign key that a user names: by its parent, a column, or its own name.

    Its own name, or the parent's with its schema, comes before what else is named so.

    Raises:
        NotOneKey: the table has no such foreign key to another table, or more
            than one, or one with a PERIOD.
    """
    found = [
        key
        for key in table.foreign_keys
        if name in (key.name, key.parent.name, *_whole(key), *key.columns)
    ]
    meant = (
        [key for key in found if key.name == name]
        or [key for key in found if name in _whole(key)]
        or found
    )
    if len(meant) == 1 and meant[0].period:
        raise NotOneKey(
            f"{meant[0].name} of {table.qualified} is a foreign key with a PERIOD: no "
            "condition finds by equal values which parents cover it together."
        )
    if len(meant) == 1 and meant[0].parent != table.qualified:
        return meant[0]
    if len(meant) > 1:
        several = "; ".join(f"{k.name} ({', '.join(k.columns)})" for k in meant)
        raise NotOneKey(
            f"{name!r} means several foreign keys of {table.qualified}: {several}. "
            "Name the constraint."
        )
    known = ", ".join(
        f"{key.name} ({', '.join(key.columns)}) to {key.parent}"
        for key in table.foreign_keys
        if key.parent != table.qualified
    )
    raise NotOneKey(
        f"{table.qualified} has no foreign key {name!r} to another table; it has: "
        f"{known or 'none'}."
    )


def _whole(key: ForeignKey) -> tuple[str, str]:
    """The name of a parent with its schema."""
    parent = key.parent
    shown = str(parent) if parent.schema != "public" else f"public.{parent}"
    return f"{parent.schema}.{parent.name}", shown
