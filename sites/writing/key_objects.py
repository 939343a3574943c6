"""Keys of rows as JSON objects of texts, for lists of rows of any table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Subquery, Text, func, select
from sqlalchemy.dialects.postgresql import JSONB, array

from sites.writing.staged import MOVE, Staged


def key_object(values: Mapping[str, ColumnElement[Any]]) -> ColumnElement[Any]:
    """The key that has these values, by column."""
    names = sa.literal([*values], sa.ARRAY(Text))
    texts = array([sa.cast(value, Text) for value in values.values()])
    return func.jsonb_object(names, texts, type_=JSONB).label("key")


def staged_keys(staged: Staged, mine: ColumnElement[bool]) -> Subquery:
    """The keys that some staged changes find and give.

    Parameters:
        mine: selects the changes in their work table.
    """
    old = select(key_object({name: staged.key(name) for name in staged.identity}))
    new = select(key_object({name: staged.new(name) for name in staged.identity}))
    return sa.union(old.where(mine), new.where(mine, staged.kind(MOVE))).subquery()
