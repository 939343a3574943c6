"""Makes the snapshots of one site at another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sites import Directory
from snaptide.plan.apply import Applied, apply
from snaptide.plan.export import export
from snaptide.plan.parameters import setting
from snaptide.plan.reader import parsed
from snaptide.plan.source import Source
from snaptide.plan.step import Step

#: What goes from one site to another with its snapshots.
_SECTIONS = ("groups", "logs", "snapshots")


def like(
    directory: Directory,
    site: str,
    other: str,
    parameters: Mapping[str, str] | None = None,
    *,
    on_step: Callable[[Step], None] | None = None,
) -> Applied:
    """Make all snapshots that one site has at another, and fill them.

    It is `export` and `apply`, without rules, schedules and budgets: what the site has
    of it already stays, and after a failure it may be called again.

    Parameters:
        site: name of the site where the snapshots are to be.
        other: name of the site that has them.
        parameters: by column, as `store_id` or short `store`, the value that takes the
            place of the other site's in all conditions.
        on_step: is called with each step before it is done.

    Raises:
        NoSuchParameter: the other site's conditions compare no such column, or with
            several values.
        BadSiteFile, CannotApply, SnaptideError: as `apply`.
    """
    given = dict(parameters or {})
    found = export(directory[other], given).document
    document = {name: found[name] for name in _SECTIONS if name in found}
    document["site"] = {"name": site}
    source = Source(file=f"site {other}")
    command = ("snapshot", "create", site, "--like", other, *setting(given))
    return apply(directory, parsed(document, source, given, command), on_step=on_step)
