"""`snaptide web`: runs the console."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sites.extras import require
from snaptide.cli.program import Program
from snaptide.cli.services import Format, LogFormat
from snaptide.errors import BadArgument
from snaptide.settings import find

if TYPE_CHECKING:
    from snaptide.web.console import Console, RunSchedule

#: The file of users, beside snaptide.toml.
USERS = "snaptide.users"

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def web(
    program: Program,
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Where browsers reach it.")
    ] = "127.0.0.1:8400",
    users: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="The file of users; default: snaptide.users beside the settings, if "
            "it is there.",
        ),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name under which browsers reach it, as behind a proxy."),
    ] = None,
    proxy_header: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The header in which a proxy on this machine names the user.",
        ),
    ] = None,
    log_format: Format = None,
) -> None:
    """Run the console, which shows all sites in a browser.

    Without users it is read-only, for browsers on this machine. It stops with Ctrl-C;
    nothing else stops with it.

    Example: snaptide web --listen 127.0.0.1:8400
    """
    require("web")
    import uvicorn

    from snaptide.web.application import application

    address, port = address_of(listen)
    made = made_console(program, users, proxy_header, (*_LOOPBACK, *(host or ())))
    _refuse_unsafe(made, address, host)
    typer.echo(f"The console is at http://{listen}/", err=True)
    if made.users is None:
        typer.echo("It is read-only: make users with snaptide user set.", err=True)
    uvicorn.run(
        application(made),
        host=address.strip("[]"),
        port=port,
        log_level=program.settings.worker.log_level,
        log_config=log_config(program, log_format),
        # Addresses of pages hold values that people look for.
        access_log=False,
        # Who the proxy is, and what it says, is ours to judge.
        proxy_headers=False,
        server_header=False,
    )


def log_config(program: Program, given: LogFormat | None) -> dict[str, Any]:
    """How a web server logs, as `logging.config` takes it."""
    from uvicorn.config import LOGGING_CONFIG

    from snaptide.logs import SERVER_AS_JSON

    as_json = (given or program.settings.worker.log_format) == LogFormat.JSON
    return SERVER_AS_JSON if as_json else LOGGING_CONFIG


def users_file(program: Program, given: Path | None) -> Path:
    """The file of users, given or beside the settings; it need not be there."""
    return given or find(program.config).absolute().parent / USERS


def made_console(
    program: Program,
    given: Path | None = None,
    proxy_header: str | None = None,
    hosts: tuple[str, ...] = _LOOPBACK,
) -> Console:
    """The console of the settings' sites.

    Parameters:
        given: the file of users, if not the one beside the settings.
    """
    from snaptide.web.console import Console
    from snaptide.web.users import Users, read

    path = users_file(program, given)
    users = None
    if given is not None or path.exists():
        read(path)  # refuse mistakes now, not at the first login
        users = Users(path)
    if proxy_header and users is None:
        raise BadArgument(
            "--proxy-header needs users: the file gives them their roles."
        )
    return Console(
        sites=program.directory,
        users=users,
        hosts=hosts,
        proxy_header=proxy_header,
        run_schedule=_run_schedule(program),
    )


def _run_schedule(program: Program) -> RunSchedule | None:
    """What has a worker run a schedule; None where no broker is configured."""
    if program.settings.broker is None:
        return None
    from snaptide import application, scheduled

    # Made once: each has connections of its own.
    return partial(scheduled.run_now, application.celery_app(program.settings))


def address_of(listen: str) -> tuple[str, int]:
    """Address and port to listen at.

    Raises:
        BadArgument: it is not ADDRESS:PORT.
    """
    address, colon, port = listen.rpartition(":")
    if not colon or not address or not port.isdecimal() or int(port) > 65535:
        raise BadArgument(f"{listen!r} is not ADDRESS:PORT.")
    return address, int(port)


def _refuse_unsafe(made: Console, address: str, hosts: list[str] | None) -> None:
    from snaptide.web.errors import UnsafeAddress

    if address in _LOOPBACK:
        return
    if made.users is None:
        raise UnsafeAddress(
            f"Other machines could reach {address}, and it has no users."
        )
    if not hosts:
        raise UnsafeAddress(f"{address} needs --host: a name that browsers call it by.")
