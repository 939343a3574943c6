"""Makes a site what a file says, or what another site is, in whatever state it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sites import Directory, faults
from snaptide.plan.errors import CannotApply
from snaptide.plan.export import export
from snaptide.plan.parameters import setting
from snaptide.plan.planner import Plan, plan
from snaptide.plan.reader import SiteFile, parsed
from snaptide.plan.source import Source
from snaptide.plan.step import Outcome, Step
from snaptide.plan.steps import RefreshGroup

#: How often a site is compared with the file: what a step makes may need another one.
_ROUNDS = 3

#: What goes from one site to another with its snapshots: their masters have the logs.
_SECTIONS = ("groups", "snapshots")


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was done to make a site what a file says."""

    site: str
    #: the steps that were done, in their order
    steps: tuple[Step, ...]
    #: what the site has besides: nothing is done about it unless asked for
    extra: tuple[Step, ...]
    notes: tuple[str, ...]
    #: what steps have left that somebody has to look at
    attention: tuple[str, ...] = ()
    #: what is to be done still: somebody else changes the site meanwhile
    left: tuple[Step, ...] = ()


def apply(
    directory: Directory,
    file: SiteFile,
    *,
    prune: bool = False,
    allow_mass_delete: bool = False,
    on_step: Callable[[Step], None] | None = None,
) -> Applied:
    """Make a site what a file says; the last step but settings is a refresh.

    Each step commits by itself. If one fails, or the program dies, what was done before
    stays, and applying the file again does the rest.

    Parameters:
        prune: also drop, remove and revoke what the file does not name.
        allow_mass_delete: let refreshes take any share of a snapshot's rows away, as
            a condition with another parameter does.
        on_step: is called with each step before it is done.

    Raises:
        CannotApply: the site has what nothing changes in place; nothing was done.
        BadSiteFile, SiteUnreachable, SiteNotInitialised: as `plan`.
        SnaptideError: a step is refused, as its command refuses it.
    """
    done: list[Step] = []
    said: list[Outcome] = []
    left = plan(directory, file)
    for _ in range(_ROUNDS):
        _refuse(left)
        waiting = [*left.steps, *(left.extra if prune else ())]
        if not waiting:
            break
        for step in waiting:
            if isinstance(step, RefreshGroup):
                step = replace(step, allow_mass_delete=allow_mass_delete)
            if on_step is not None:
                on_step(step)
            said.append(step.run(directory) or Outcome())
            done.append(step)
            faults.point("apply.after_step")
        left = plan(directory, file)
    return Applied(
        site=left.site,
        steps=tuple(done),
        extra=left.extra,
        notes=(*(note for one in said for note in one.notes), *left.notes),
        attention=tuple(what for one in said for what in one.attention),
        left=left.steps,
    )


def _refuse(left: Plan) -> None:
    if left.refused:
        raise CannotApply(
            f"Site {left.site} differs in what nothing changes in place: "
            f"{'; '.join(left.refused)}.",
            site=left.site,
            refused=left.refused,
        )


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
