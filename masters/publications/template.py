"""Condition templates: which rows of a table a site gets, by its parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping

from masters.publications.errors import BadTemplate
from sites import names

#: By column, the parameter that its value has to be.
Template = Mapping[str, str]

_ONE = re.compile(r'\s*("(?:[^"]|"")+"|\w+)\s*=\s*:(\w+)\s*')
_AND = re.compile(r"\sAND\s", re.IGNORECASE)


def read(text: str | None) -> Template:
    """Read a template, as in `store_id = :store AND region = :region`.

    Parameters:
        text: None for all rows.

    Raises:
        BadTemplate: it has anything else in it, or a column twice.
    """
    found: dict[str, str] = {}
    for part in () if text is None else _AND.split(text):
        one = _ONE.fullmatch(part)
        if one is None:
            raise BadTemplate(
                f"{part.strip()!r} is not of the form column = :parameter, and no "
                "other conditions can be bound to a site's login.",
                condition=text,
            )
        column = names.plain(one[1])
        if column in found:
            raise BadTemplate(f"{text!r} names {column} twice.", condition=text)
        found[column] = one[2]
    return found


def written(template: Template) -> str | None:
    """A template as a text that `read` takes; None if it stands for all rows."""
    parts = [f"{names.quoted(column)} = :{one}" for column, one in template.items()]
    return " AND ".join(parts) or None
