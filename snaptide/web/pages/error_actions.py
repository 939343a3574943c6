"""What an operator does about parked transactions: preview, retry, edit, give up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import deferred
from deferred import RetryReport
from deferred.error_catalog import COLUMN_GONE
from deferred.parked.present_names import GoneColumns
from deferred.parked.retry import retry_alone
from sites.words import counted, does
from snaptide.errors import BadArgument
from snaptide.web.action_log import noted
from snaptide.web.errors import PageMissing
from snaptide.web.listed import listed
from snaptide.web.page import Action, Shown
from snaptide.web.pages import parked
from snaptide.web.pages.edits import edits_of, words_of
from snaptide.web.pages.error_queue import ROOM_OF_ORIGINS, Filter
from snaptide.web.pages.previewed import MOST, previewed
from snaptide.web.visit import Visit, command

#: A command line names no more transactions than this.
NAMED = 50


def preview(visit: Visit) -> Shown:
    """Show what a retry would come to, with the values of the form."""
    site, number = visit.site, visit.number("id")
    edits, skip = edits_of(site, number, visit.form), _left_out(visit)
    found = deferred.preview_error(
        site, number, edits, skip=skip, without_gone=_without_gone(visit), limit=MOST
    )
    words = [*words_of(edits), *_words_of_left_out(skip), *_words_of_gone(visit)]
    again = command("errors", "retry", site.name, number, *words)
    rows, left_out = previewed(found)
    more = {
        "preview": found,
        "rows": rows,
        "rows_left_out": left_out,
        "previewed": MOST,
    }
    return _transaction(visit, {**more, "retry_command": again})


def retry_one(visit: Visit) -> str | Shown:
    """Retry a transaction with the values of the form, without what it leaves out."""
    site, number = visit.site, visit.number("id")
    edits, skip = edits_of(site, number, visit.form), _left_out(visit)
    along = bool(visit.sent("with_dependants"))
    words = [*words_of(edits), *_words_of_left_out(skip), *_words_of_gone(visit)]
    words += ["--with-dependants"] if along else []
    again = command("errors", "retry", site.name, number, *words)
    with noted(site, visit.user, again) as note:
        reports = deferred.retry_errors(
            site,
            [number],
            edits=edits,
            skip=skip,
            with_dependants=along,
            without_gone=_without_gone(visit),
        )
        note.outcome = _outcome(reports)
    mine = next(report for report in reports if report.error_id == number)
    if not mine.applied:
        context = {"problem": mine.reason, "retry_command": again}
        return _transaction(visit, context, status=409)
    visit.say(f"{note.outcome} The same: {again}")
    return _queue(visit)


def retry_many(visit: Visit) -> str:
    """Retry the chosen transactions, or all that match a filter."""
    site = visit.site
    matching = visit.sent("which") == "matching"
    numbers = _matching(visit) if matching else _chosen(visit)
    words = [*_words(visit, numbers, matching), *_words_of_gone(visit)]
    again = command("errors", "retry", site.name, *words)
    without = _without_gone(visit)
    with noted(site, visit.user, again) as note:
        if matching:
            by_name = Filter.of(visit.form).reason == COLUMN_GONE
            gone = GoneColumns(by_name=by_name, without=without)
            # Not by number: those that depend on lost rows wait for a decision each.
            reports = [retry_alone(site, one, gone=gone) for one in sorted(numbers)]
        else:
            reports = deferred.retry_errors(site, numbers, without_gone=without)
        note.outcome = _outcome(reports)
    visit.say(f"{note.outcome} The same: {again}")
    return _queue(visit)


def give_up(visit: Visit) -> str | Shown:
    """Delete the chosen transactions, or all that match, after asking with counts."""
    site = visit.site
    matching = visit.sent("which") == "matching"
    numbers = _matching(visit) if matching else _chosen(visit)
    if visit.sent("sure").replace(",", "") != str(len(numbers)):
        return _asked(visit, numbers, matching)
    again = command(
        "errors", "delete", site.name, *_words(visit, numbers, matching), "--yes"
    )
    with noted(site, visit.user, again) as note:
        count = deferred.delete_errors(site, numbers)
        note.outcome = f"{count:,} given up."
    visit.say(f"{note.outcome} The same: {again}")
    return _queue(visit)


def _asked(visit: Visit, numbers: Sequence[int], matching: bool) -> Shown:
    """The question before transactions are given up."""
    errors = {one.id: one for one in deferred.list_errors(visit.site)}
    for number in numbers:
        if number not in errors:
            raise deferred.NoSuchError(f"There is no error transaction {number}.")
    chosen = {*numbers}
    origins = Counter(errors[number].origin for number in numbers)
    waiting = [e.id for e in errors.values() if not chosen.isdisjoint(e.waits_for)]
    words = _words(visit, numbers, matching)
    context = {
        "numbers": [] if matching else numbers,
        "count": len(numbers),
        "origins": listed(
            origins.most_common(), lambda one: one, room=ROOM_OF_ORIGINS, markup=20
        ),
        "behind": [number for number in waiting if number not in chosen],
        "which": visit.sent("which"),
        "filter": Filter.of(visit.form),
        "latest": visit.sent("latest"),
        "wrong": bool(visit.sent("sure")),
        "command": command("errors", "delete", visit.site.name, *words),
    }
    return Shown(template="give_up.html", context=context)


def _transaction(visit: Visit, more: Mapping[str, Any], status: int = 200) -> Shown:
    """The page of a transaction, with the values of the form."""
    number = visit.number("id")
    after = visit.sent("after")
    error = deferred.show_error(
        visit.site,
        number,
        after=int(after) if after.isdecimal() else 0,
        limit=parked.AT_ONCE,
    )
    room = parked.ROOM_BELOW_PREVIEW if "preview" in more else parked.ROOM
    context = {**parked.about(visit, error, room), "given": visit.form, **more}
    return Shown(template="parked.html", context=context, status=status)


def _matching(visit: Visit) -> list[int]:
    """The transactions that match the form's filter, and that its page knew."""
    latest = visit.sent("latest")
    if not latest.isdecimal():
        raise PageMissing("The form does not say up to which transaction.")
    found = Filter.of(visit.form).chosen(visit.site)
    return [one.id for one in found if one.id <= int(latest)]


def _chosen(visit: Visit) -> list[int]:
    wrong = "Choose at least one transaction."
    found = _numbers(visit, "id", wrong=wrong)
    if not found:
        raise BadArgument(wrong)
    return found


def _left_out(visit: Visit) -> list[int]:
    """The numbers of the calls that the form leaves out."""
    return _numbers(visit, "skip", wrong="The form leaves out what is no call.")


def _numbers(visit: Visit, name: str, *, wrong: str) -> list[int]:
    """The numbers that a form sends under a name, each once."""
    given = [str(value) for value in visit.form.getlist(name)]
    if not all(one.isdecimal() and int(one) < 2**63 for one in given):
        raise BadArgument(wrong)
    return [int(one) for one in dict.fromkeys(given)]


def _without_gone(visit: Visit) -> bool:
    """Whether the form leaves out values of columns that the master has dropped."""
    return bool(visit.sent("without_gone"))


def _words_of_gone(visit: Visit) -> Sequence[str]:
    return ["--without-gone"] if _without_gone(visit) else []


def _words_of_left_out(skip: Sequence[int]) -> Sequence[str]:
    return [word for one in skip for word in ("--skip", str(one))]


def _words(visit: Visit, numbers: Sequence[int], matching: bool) -> Sequence[str]:
    """The transactions as arguments of a command."""
    if matching:
        return Filter.of(visit.form).words or ["--all"]
    return [str(number) for number in numbers[:NAMED]]


def _outcome(reports: Sequence[RetryReport]) -> str:
    left = [report for report in reports if not report.applied]
    applied = f"{len(reports) - len(left):,} of {len(reports):,} applied."
    if aside := [report for report in reports if report.left_out]:
        calls, number = aside[0].left_out, aside[0].error_id
        applied += f" {counted(calls, 'call', 'were')} left out, and "
        applied += f"{does(calls, 'stay')} parked as {number}."
    if not left:
        return applied
    return f"{applied} The first that is not: {left[0].reason}"


def _queue(visit: Visit) -> str:
    return f"/sites/{visit.site.name}/errors"


_QUEUE = "/sites/{site}/errors"

ACTIONS = [
    Action(path=f"{_QUEUE}/{{id:int}}/preview", run=preview),
    Action(path=f"{_QUEUE}/{{id:int}}/retry", run=retry_one),
    Action(path=f"{_QUEUE}/retry", run=retry_many),
    Action(path=f"{_QUEUE}/give-up", run=give_up),
]
