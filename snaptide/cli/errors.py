"""`snaptide errors`: transactions that a master could not apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

import deferred
from deferred.parked.error_dependencies import Edge
from deferred.parked.error_queue import ErrorCall, ErrorProcedure, ErrorTransaction
from sites import Site
from snaptide.cli.arguments import SiteArgument, complete_site
from snaptide.cli.confirm import Yes, confirm
from snaptide.cli.failures import end_if
from snaptide.cli.output import cell, facts, show, show_facts, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs
from snaptide.errors import BadArgument

#: The number of calls of a transaction that `show` prints at once.
PAGE = 100

app = Verbs()

Origin = Annotated[
    str | None,
    typer.Option(help="Only transactions of this site.", autocompletion=complete_site),
]


class Reason(StrEnum):
    """What a transaction is parked for."""

    CONFLICT = "conflict"
    ERROR = "error"
    DEPENDANT = "dependant"
    QUIET = "quiet"
    WITHDRAWN = "withdrawn"
    COLUMN_GONE = "column gone"


ForReason = Annotated[
    Reason | None,
    typer.Option("--reason", help="Only transactions that are parked for this reason."),
]
WithoutGone = Annotated[
    bool,
    typer.Option(
        "--without-gone",
        help="Leave out the values of columns that the master has dropped; they are "
        "lost.",
    ),
]
Numbers = Annotated[list[int] | None, typer.Argument(metavar="[ID]...")]
All = Annotated[bool, typer.Option("--all", help="All parked transactions.")]


@app.command("list")
def list_(
    program: Program,
    site: SiteArgument,
    origin: Origin = None,
    reason: ForReason = None,
) -> None:
    """List parked transactions; ends with 3 if there are any.

    Example: snaptide errors list hq --origin jfk
    """
    errors = deferred.list_errors(site, origin, reason=reason)
    rows = [
        (e.id, e.origin, e.origin_user, e.parked_at, e.reason, e.error_message)
        for e in errors
    ]
    columns = ["id", "origin", "user", "parked", "reason", "what happened"]
    show(program, errors, lambda: table(columns, rows))
    end_if(attention=errors)


@app.command("show")
def show_(
    program: Program,
    site: SiteArgument,
    number: Annotated[int, typer.Argument(metavar="ID")],
    after: Annotated[
        int, typer.Option(min=0, help="Only calls with a higher number.")
    ] = 0,
    limit: Annotated[int, typer.Option(min=1, help="At most this many calls.")] = PAGE,
) -> None:
    """Show a parked transaction: its rows side by side, and a tree of dependants.

    Example: snaptide errors show hq 7
    """
    error = deferred.show_error(site, number, after=after, limit=limit)
    show(program, error, lambda: _whole(error))


@app.command()
def retry(
    program: Program,
    site: SiteArgument,
    numbers: Numbers = None,
    everything: All = False,
    origin: Origin = None,
    reason: ForReason = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE.COLUMN=VALUE", help="Write this value instead; with one ID."
        ),
    ] = None,
    null: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE.COLUMN", help="Write NULL instead; with one ID."),
    ] = None,
    skip: Annotated[
        list[int] | None,
        typer.Option(
            metavar="CALL",
            help="Leave this call out; it stays parked, with those that refer to its "
            "row; with one ID.",
        ),
    ] = None,
    with_dependants: Annotated[
        bool,
        typer.Option("--with-dependants", help="Also transactions that wait for them."),
    ] = False,
    without_gone: WithoutGone = False,
) -> None:
    """Try to apply parked transactions again; ends with 3 if some cannot be applied.

    Transactions that a site withdrew from its own queue go back there.
    What --skip leaves out stays parked under the same ID.

    Example: snaptide errors retry hq 7 --edit flights.dep_delay=12
    """
    edits = [deferred.Edit.parse(text) for text in edit or []]
    edits += [_null(text) for text in null or []]
    reports = deferred.retry_errors(
        site,
        _chosen(numbers, everything, origin, reason),
        origin=origin,
        reason=reason,
        edits=edits,
        skip=skip or (),
        with_dependants=with_dependants,
        without_gone=without_gone,
    )
    names = ["error_id", "applied", "conflicts_resolved", "reason"]
    columns = ["id", "applied", "conflicts resolved", "why not"]
    if skip:
        names.append("left_out")
        columns.append("calls left out, still parked")
    rows = [[getattr(report, name) for name in names] for report in reports]
    show(program, reports, lambda: table(columns, rows))
    end_if(attention=not all(report.applied for report in reports))


@app.command()
def delete(
    program: Program,
    site: SiteArgument,
    numbers: Numbers = None,
    everything: All = False,
    origin: Origin = None,
    reason: ForReason = None,
    yes: Yes = False,
) -> None:
    """Delete parked transactions for good; asks first, and ends with 1 if you say no.

    Without a terminal to ask at, it needs --yes.

    Example: snaptide errors delete hq 7
    """
    chosen = _chosen(numbers, everything, origin, reason)
    if not yes:
        # Delete those that were counted, and none that arrive while the user thinks.
        chosen = _counted(site, chosen, origin, reason)
    count = deferred.delete_errors(site, chosen, origin=origin, reason=reason)
    show_facts(program, site=site.name, deleted=count)


def _counted(
    master: Site,
    numbers: list[int] | None,
    origin: str | None,
    reason: Reason | None,
) -> list[int]:
    """The numbers of the transactions to delete, after the user has agreed."""
    found = [
        error
        for error in deferred.list_errors(master, origin, reason=reason)
        if numbers is None or error.id in numbers
    ]
    ids = numbers or [error.id for error in found]
    if not found:
        return ids
    by_origin = Counter(error.origin for error in found)
    counts = ", ".join(f"{count:,} of {name}" for name, count in by_origin.items())
    confirm(
        f"Delete {len(found):,} parked transactions at {master.name} for good "
        f"({counts})?",
        yes=False,
    )
    return ids


def _chosen(
    numbers: list[int] | None,
    everything: bool,
    origin: str | None,
    reason: Reason | None,
) -> list[int] | None:
    """The numbers; None means all that match, which the user has to ask for."""
    matching = everything or origin is not None or reason is not None
    if bool(numbers) == matching:
        raise BadArgument(
            "Give the numbers of transactions, or --all, --origin or --reason."
        )
    return numbers or None


def _null(text: str) -> deferred.Edit:
    edit = deferred.Edit.parse(f"{text}=")
    return deferred.Edit(call=edit.call, column=edit.column, value=None)


def _whole(error: ErrorTransaction) -> Group:
    names = [n for n in error.__slots__ if n not in _PARTS]
    parts: list[Table | Text | Tree] = [facts(error, names)]
    if error.edges:
        parts += [
            Text(),
            Text("Transactions to settle first, and those that wait:", style="bold"),
        ]
        parts += trees(error.id, error.edges)
    calls: list[ErrorCall | ErrorProcedure] = [*error.calls, *error.procedures]
    for call in sorted(calls, key=lambda call: call.call_no):
        parts += [Text(), *_shown(call)]
    if error.next_after is not None:
        more = f"For more calls: --after {error.next_after}"
        parts += [Text(), Text(more, style="bold")]
    return Group(*parts)


def _shown(call: ErrorCall | ErrorProcedure) -> list[Text | Table]:
    if isinstance(call, ErrorCall):
        return [_title(call), _images(call)]
    what = f"Call {call.call_no}: procedure {call.name}  {call.error or ''}".rstrip()
    rows = [
        (n, one.type, "NULL" if one.value is None else one.value)
        for n, one in enumerate(call.arguments, 1)
    ]
    arguments = [table(["argument", "type", "value"], rows)] if rows else []
    return [Text(what, style="bold red" if call.error else "bold"), *arguments]


_PARTS = ("calls", "procedures", "next_after", "edges")
_KINDS = {"I": "insert", "U": "update", "M": "change of key", "D": "delete"}


def _title(call: ErrorCall) -> Text:
    what = f"Call {call.call_no}: {_KINDS.get(call.kind, call.kind)} {call.table}"
    return Text(f"{what}  {call.conflict or ''}".rstrip(), style="bold")


def _images(call: ErrorCall) -> Table:
    sides = (call.old, call.new, call.current, call.now)
    columns = dict.fromkeys(name for side in sides for name in side or {})
    made = table(["column", "old", "new", "here when parked", "here now"], [])
    for name in columns:
        values = [_value(side, name) for side in sides]
        made.add_row(cell(name), *values, style="" if _settled(call, name) else "red")
    return made


def _value(side: Mapping[str, str | None] | None, name: str) -> str:
    if side is None:
        return "(no row)"
    value = side.get(name)
    return "NULL" if value is None else cell(value)


def _settled(call: ErrorCall, name: str) -> bool:
    """Whether the master still has the value that the site's change started from."""
    if call.old is None or call.current is None:
        return call.old is call.current
    return call.old.get(name) == call.current.get(name)


def trees(number: int, edges: Sequence[Edge]) -> Iterator[Tree]:
    """Draw transactions to settle first at the top, with their dependants below.

    A transaction that waits for several others stands below each of them, and its own
    dependants below it only once.

    Parameters:
        number: the transaction that the user looks at; it is marked.
    """
    below: dict[int, list[int]] = {}
    for edge in edges:
        below.setdefault(edge.on, []).append(edge.waiting)
    drawn: set[int] = set()
    for top in sorted(below.keys() - {edge.waiting for edge in edges}):
        yield _drawn(Tree(_name(top, number)), top, number, below, drawn)


def _drawn(
    tree: Tree, top: int, number: int, below: dict[int, list[int]], drawn: set[int]
) -> Tree:
    """Add the dependants of a transaction, to any depth, without recursion."""
    open_ = [(tree, top)]
    while open_:
        parent, one = open_.pop()
        if one in drawn:
            continue
        drawn.add(one)
        open_ += [(parent.add(_name(w, number)), w) for w in below.get(one, ())]
    return tree


def _name(one: int, number: int) -> str:
    return f"[bold]{one} (this one)[/bold]" if one == number else str(one)
