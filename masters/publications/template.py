"""Condition templates: which rows of a table a site gets, by its parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from masters.publications.errors import BadTemplate
from sites import names

_ONE = re.compile(r'\s*("(?:[^"]|"")+"|\w+)\s*=\s*:(\w+)\s*')
_FOLLOWS = re.compile(r"\s*follows\s+(\S(?:.*\S)?)\s*", re.IGNORECASE)
_AND = re.compile(r"\sAND\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Template:
    """What has to be so of a row for a site to get it; all of it."""

    #: by column, the parameter that its value has to be
    columns: Mapping[str, str]
    #: foreign keys, by parent, column or name: the site has to get the parent, too
    follows: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters, in their order."""
        return tuple(dict.fromkeys(self.columns.values()))


def read(text: str | None) -> Template:
    """Read a template, as in `store_id = :store AND region = :region`.

    Parameters:
        text: None for all rows.

    Raises:
        BadTemplate: it has anything else in it, or a column or parent twice.
    """
    found: dict[str, str] = {}
    follows: list[str] = []
    for part in () if text is None else _AND.split(text):
        one, followed = _ONE.fullmatch(part), _FOLLOWS.fullmatch(part)
        if one is None and followed is None:
            raise BadTemplate(
                f"{part.strip()!r} is not of the form column = :parameter or follows "
                "PARENT, and no other conditions can be bound to a site's login.",
                condition=text,
            )
        if one is not None:
            name = names.plain(one[1])
            twice = name in found
            found[name] = one[2]
        else:
            assert followed is not None
            name = followed[1]
            twice = name in follows
            follows.append(name)
        if twice:
            raise BadTemplate(f"{text!r} names {name} twice.", condition=text)
    return Template(found, tuple(follows))


def written(template: Template) -> str | None:
    """A template as a text that `read` takes; None if it stands for all rows."""
    parts = [
        f"{names.quoted(column)} = :{one}" for column, one in template.columns.items()
    ]
    parts += [f"follows {one}" for one in template.follows]
    return " AND ".join(parts) or None
