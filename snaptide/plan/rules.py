"""The rules in a site's file, for commands that take files of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sites import names
from snaptide.plan.parameters import Parameters
from snaptide.plan.reader import parsed
from snaptide.plan.source import Source
from snaptide.plan.wanted import home_of


def rules_for(
    master: str, values: dict[str, Any], source: Source, parameters: Mapping[str, str]
) -> dict[str, Any]:
    """The rules that a site's file has for a master, by table.

    Parameters:
        values: the file as `tomllib` reads it.
        parameters: values for the `${name}` in the rules; if the file has several
            masters, for all: its snapshots say which tables are whose.

    Raises:
        BadSiteFile, UnsetParameter, UnusedParameter: see `read`.
    """
    sections = values.get("groups", {}).values()
    homes = {one.get("master") for one in sections if isinstance(one, dict)}
    if len(homes) + bool(values.get("publications")) < 2:
        rules = {"tables": values.get("tables", {})}
        found: dict[str, Any] = Parameters(parameters, source).put_in(rules)["tables"]
        return found
    document = parsed(values, source, parameters, ()).document
    return {
        name: body
        for name, body in document.tables.items()
        if home_of(document, names.parse(name)) == master
    }
