"""Makes a site what a file says, step by step, in whatever state it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sites import Directory, faults
from snaptide.plan.errors import CannotApply
from snaptide.plan.planner import Plan, plan
from snaptide.plan.reader import SiteFile
from snaptide.plan.step import Outcome, Step
from snaptide.plan.steps import RefreshGroup

#: How often a site is compared with the file: what a step makes may need another one.
_ROUNDS = 3


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
