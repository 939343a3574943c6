"""Other rules for a master: what they change, and what its conflicts would become."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import wait
from functools import partial
from typing import Any

from markupsafe import escape

from masters.analysis.replay import Replayed
from masters.rules import list_rules
from masters.rules.document import documents
from sites import names
from sites.errors import SnaptideError
from snaptide import toml
from snaptide.web.errors import PageMissing
from snaptide.web.listed import listed
from snaptide.web.page import Action, Page, Shown
from snaptide.web.pages.rules import cells
from snaptide.web.trial import MOST, OtherRules, Trial, before_the_latest, tried
from snaptide.web.visit import Visit, command

#: Seconds that a page waits for a trial.
PATIENCE = 30.0
#: A longer document is not put into the page, in bytes.
ROOM_OF_DOCUMENT = 24_000
#: So many bytes of a page are for each list.
ROOM = {"changes": 10_000, "findings": 8_000, "otherwise": 22_000}


def read(visit: Visit) -> Mapping[str, Any]:
    """The form, with the rules of the master or of one of its tables."""
    table, since = visit.query("table"), visit.query_number("since")
    found = visit.ask("rules", list_rules)
    if table:
        wanted = names.parse(table)
        found = [one for one in found if one.table == wanted]
    if since is None:
        since = visit.ask("the latest conflicts", before_the_latest)
    text = toml.written(documents(found)).strip() if found else ""
    return _shown(visit, OtherRules(text=text, keep_others=bool(table), since=since))


def attempt(visit: Visit) -> Shown:
    """Show what the rules of the form come to; writes nothing."""
    since = visit.sent("since")
    if not (since.isascii() and since.isdecimal() and int(since) < 2**63):
        raise PageMissing("The form does not say from which conflict on.")
    wanted = OtherRules(
        text=visit.sent("document").replace("\r\n", "\n"),
        keep_others=bool(visit.sent("keep_others")),
        since=int(since),
    )
    asked = visit.console.examinations.begin(
        visit.site, ("other rules", wanted), partial(tried, wanted=wanted)
    )
    wait([asked], timeout=PATIENCE)
    if not asked.done():
        return Shown(template=_TEMPLATE, context=_shown(visit, wanted, late=True))
    answer = asked.result()
    if answer.away and answer.error is not None:
        raise answer.error
    context = _shown(visit, wanted, trial=answer.value, problem=answer.error)
    status = 400 if answer.error else 200
    return Shown(template=_TEMPLATE, context=context, status=status)


def _shown(
    visit: Visit,
    wanted: OtherRules,
    *,
    trial: Trial | None = None,
    problem: SnaptideError | None = None,
    late: bool = False,
) -> dict[str, Any]:
    site = visit.site.name
    option = ["--keep-others"] if wanted.keep_others else []
    replay = ("conflicts", "replay", site, "--rules", "rules.toml")
    texts: dict[str, Callable[[Any], Iterable[object]]] = {
        "changes": lambda one: (one,),
        "findings": cells,
        "otherwise": _cells,
    }
    return {
        "wanted": wanted,
        "fits": len(escape(wanted.text).encode()) <= ROOM_OF_DOCUMENT,
        "trial": trial,
        "problem": problem,
        "late": late,
        "most": MOST,
        **{
            name: listed(getattr(trial, name, ()), said, room=ROOM[name])
            for name, said in texts.items()
        },
        "export": f"{command('rules', 'export', site)} > rules.toml",
        "diff": command("rules", "diff", site, "rules.toml", *option),
        "command": command(*replay, "--since", wanted.since),
    }


def _cells(one: Replayed) -> Sequence[object]:
    return (
        one.id,
        one.table,
        one.row_key,
        one.kind,
        one.reference,
        one.method,
        one.decision,
        one.result,
        one.would_method,
        one.would_decision,
        one.would_result,
    )


_PATH, _TEMPLATE = "/sites/{site}/rules/other", "other_rules.html"

PAGE = Page(path=_PATH, template=_TEMPLATE, read=read)

ACTIONS = [Action(path=f"{_PATH}/try", run=attempt)]
