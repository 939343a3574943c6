"""Asks how many bytes images of rows have, before a process reads them.

A limit of rows bounds the bytes as long as rows fit into pages. Longer values are
stored apart (TOAST): only where a table has such values, the databases are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Select, func, select

from sites.extras import pa
from snapshots.differences.shared_job import MOST_BYTES
from snapshots.side import Side, Sides

#: A value takes no less than this share of its bytes, however it is compressed.
_COMPRESSED = 1 / 255


def may_be_wide(apart: int) -> bool:
    """Whether images can have more bytes than a process should hold.

    Parameters:
        apart: the bytes of values that are stored apart, at all sides.
    """
    return apart > MOST_BYTES * _COMPRESSED


def are_wide(
    sides: Sides,
    shape: pa.Schema,
    there: Sequence[Select[Any]],
    here: Sequence[Select[Any]],
) -> bool:
    """Whether images have more bytes than a process should hold.

    Parameters:
        there, here: read them at the master, and at the site.
    """
    with ThreadPoolExecutor(max_workers=1) as beside:
        theirs = beside.submit(size, sides.master, shape, there)
        present = size(sides.site, shape, here)
        return theirs.result() + present > MOST_BYTES


def size(side: Side, shape: pa.Schema, queries: Sequence[Select[Any]]) -> int:
    """The bytes of all texts and binary values that queries of images find.

    PostgreSQL knows the length of a text or `bytea` without reading it.
    """
    if not queries:
        return 0
    rows = sa.union_all(*queries).subquery("rows")
    lengths = [
        func.coalesce(func.octet_length(rows.c[field.name]), 0)
        for field in shape
        if pa.types.is_string(field.type) or pa.types.is_binary(field.type)
    ]
    # The lengths of one row may be more than an integer holds.
    total = sum((func.sum(one) for one in lengths), start=sa.literal(0))
    return int(side.at.scalar(select(total).select_from(rows)) or 0)
