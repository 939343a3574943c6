"""Gives commands what all of them take: their run, their site, and `--json`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar, get_args

import typer

from sites import Site
from snaptide.cli.arguments import Json
from snaptide.cli.program import Program

Command = TypeVar("Command", bound=Callable[..., Any])


class Verbs(typer.Typer):
    """A group of commands, each of them `prepared`."""

    def command(
        self, name: str | None = None, *, report: bool = True, **options: Any
    ) -> Callable[[Command], Command]:
        """As Typer's; `report` is that of `prepared`."""

        def registered(command: Command) -> Command:
            register = super(Verbs, self).command(
                name, help=_flowing(command), **options
            )
            register(prepared(command, report=report))
            return command

        return registered


def _flowing(command: Callable[..., None]) -> str:
    """What a command's docstring says, with lines as long as the terminal wants."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(one.split("\n")) for one in paragraphs)


def prepared(
    command: Callable[..., None], *, report: bool = True
) -> Callable[..., None]:
    """A function that gets a `Program` first, as a command for Typer.

    A parameter that is a `SiteArgument` gets the site that the user has named. A
    function that gets no `Program` stays as it is.

    Parameters:
        report: it takes `--json`, which `output.show` heeds.
    """
    own = inspect.signature(command, eval_str=True)
    [program, *parts] = own.parameters.values()
    if program.annotation is not Program:
        return command
    sites = [part.name for part in parts if _is_site(part)]

    @wraps(command)
    def run(ctx: typer.Context, **values: Any) -> None:
        values.pop("json", None)  # the program has noted it
        program = Program.of(ctx)
        given = {name: program.site(values[name]) for name in sites}
        command(program, **{**values, **given})

    context = program.replace(name="ctx", annotation=typer.Context)
    named = [_by_name(part) if part.name in sites else part for part in parts]
    after = [_JSON] if report else []
    vars(run)["__signature__"] = own.replace(parameters=[context, *named, *after])
    return run


_JSON = inspect.Parameter(
    "json", inspect.Parameter.KEYWORD_ONLY, annotation=Json, default=False
)


def _is_site(part: inspect.Parameter) -> bool:
    return get_args(part.annotation)[:1] == (Site,)


def _by_name(part: inspect.Parameter) -> inspect.Parameter:
    """The parameter, as the name of a site."""
    _, argument = get_args(part.annotation)
    return part.replace(annotation=Annotated[str, argument])
