"""Reads the file that describes a site, and names the line of what is wrong in it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from deferred import schedules
from deferred.errors import BadOption
from deferred.interval import BadInterval
from sites import names
from sites.mistakes import mistakes
from snaptide.errors import BadArgument
from snaptide.limits import age_of, bytes_of
from snaptide.plan.checks import check_contracts, check_publications
from snaptide.plan.document import Document
from snaptide.plan.errors import BadSiteFile
from snaptide.plan.parameters import Parameters, named_in, setting
from snaptide.plan.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFile:
    """A file that describes a site, with the values of its parameters put in."""

    document: Document
    source: Source = field(repr=False)
    #: the words of the command that makes a site what the file says
    command: tuple[str, ...] = ()
    #: the values that `rules apply` needs of the file (`rules_for`)
    for_rules: Mapping[str, str] = field(default_factory=dict)


def read(file: FilePath, parameters: Mapping[str, str] | None = None) -> SiteFile:
    """Read a file that describes a site.

    Parameters:
        parameters: values for the `${name}` in the file.

    Raises:
        BadSiteFile: the file cannot be read, or the message names the line and what is
            wrong with it.
        UnsetParameter, UnusedParameter: the parameters are not those of the file.
    """
    try:
        text = file.read_text("utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise BadSiteFile(f"{file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise BadSiteFile(f"{file} is not TOML: {error}.", file=str(file)) from None
    given = parameters or {}
    command = ("apply", str(file), *setting(given))
    return parsed(values, Source.of(str(file), text), given, command)


def parsed(
    values: dict[str, Any],
    source: Source,
    parameters: Mapping[str, str],
    command: tuple[str, ...],
) -> SiteFile:
    """The description of a site in a document, as `tomllib` reads it.

    Parameters:
        command: the words of the command that makes a site what the document says.

    Raises:
        BadSiteFile, UnsetParameter, UnusedParameter.
    """
    needed = named_in(values.get("tables"))
    values = Parameters(parameters, source).put_in(values)
    try:
        document = Document.model_validate(values)
    except ValidationError as error:
        raise _refusal(source, error) from None
    _check(document, source)
    homes = {one.master for one in document.groups.values()}
    if len(homes) + bool(document.publications) > 1:
        needed = {*parameters}
    return SiteFile(
        document=document,
        source=source,
        command=command,
        for_rules={n: value for n, value in parameters.items() if n in needed},
    )


def _refusal(source: Source, error: ValidationError) -> BadSiteFile:
    places = [_located(one["loc"]) for one in error.errors(include_input=False)]
    sentences = mistakes(Document, error, "key")
    problems = [
        f"{source.line(place)}: {sentence}"
        for place, sentence in zip(places, sentences, strict=True)
    ]
    return BadSiteFile(" ".join(problems), problems=problems, file=source.file)


def _located(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Where an error is; pydantic adds to the name of a key that it is one."""
    return loc[:-1] if loc[-1:] == ("[key]",) else loc


def _check(document: Document, source: Source) -> None:
    """Refuse what the parts of a document say against each other."""
    _check_snapshots(document, source)
    check_publications(document, source)
    check_contracts(document, source)
    timed: set[tuple[str, str]] = set()
    for number, one in enumerate(document.schedules):
        if (one.kind, one.subject) in timed:
            reason = f"a {one.kind} of {one.subject} stands above, too"
            raise source.error(("schedules", number), reason)
        timed.add((one.kind, one.subject))
        try:
            schedules.check(one.kind, one.subject, one.every, one.options)
        except (schedules.BadSchedule, BadOption) as error:
            raise source.error(("schedules", number), error.message) from None
        except BadInterval as error:
            raise source.error(("schedules", number, "every"), error.message) from None
    for name, budget in document.destinations.items():
        for key, value, reader in (
            ("age", budget.age, age_of),
            ("size", budget.size, bytes_of),
        ):
            try:
                if value is not None:
                    reader(value)
            except (BadArgument, BadInterval) as error:
                raise source.error(("destinations", name, key), error.message) from None


def _check_snapshots(document: Document, source: Source) -> None:
    seen: dict[names.QualifiedName, str] = {}
    for name, one in document.snapshots.items():
        where = ("snapshots", name)
        key = names.parse(name)
        if key in seen:
            raise source.error(where, f"{seen[key]} is the same snapshot")
        seen[key] = name
        if one.group is None and len(document.groups) != 1:
            known = ", ".join(document.groups) or "none"
            reason = f"name its group; the groups of the file are: {known}"
            raise source.error((*where, "group"), reason)
        if one.group is not None and one.group not in document.groups:
            known = ", ".join(document.groups) or "none"
            reason = f"there is no [groups.{one.group}]; the groups are: {known}"
            raise source.error((*where, "group"), reason)
