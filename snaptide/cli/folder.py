"""`snaptide folder`: files that are published with the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import folders
from folders import SyncReport
from folders import serve as serving
from snaptide.cli.arguments import SiteArgument, duration
from snaptide.cli.failures import end_if
from snaptide.cli.output import facts, show, table
from snaptide.cli.program import Program
from snaptide.cli.progress import working
from snaptide.cli.verbs import Verbs
from snaptide.cli.web import address_of
from snaptide.errors import BadArgument

app = Verbs()

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The folder: name or schema.name")
]

Directory = Annotated[
    Path,
    typer.Argument(metavar="DIR", file_okay=False, help="A directory of its own."),
]


@app.command()
def create(program: Program, site: SiteArgument, name: Name) -> None:
    """Make a folder at a master: two tables with logs, and rules that keep all files.

    Sites take snapshots of both tables. It may be run again if it was broken off.

    Example: snaptide folder create hq docs
    """
    show(program, folders.create(site, name))


@app.command("list")
def list_(
    program: Program,
    site: SiteArgument,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A folder, for its files.")
    ] = None,
    removed: Annotated[
        bool,
        typer.Option(
            "--removed", help="Files that were removed or overwritten, instead."
        ),
    ] = False,
) -> None:
    """List the folders of a site, or the files of one.

    Example: snaptide folder list jfk

    Example: snaptide folder list hq docs --removed
    """
    if name is None:
        sizes = folders.list_folders(site)
        rows = [(f.name, f.files, f.bytes, f.removed, f.removed_bytes) for f in sizes]
        columns = ["folder", "files", "bytes", "removed", "bytes of them"]
        show(program, sizes, lambda: table(columns, rows))
        return
    found = folders.list_files(site, name, removed=removed)
    described = [
        {
            "path": one.path,
            "kind": one.kind,
            "bytes": one.size,
            "written": one.mtime,
            "executable": one.executable,
            "sha256": (one.sha256 or b"").hex(),
            "removed": one.removed_at,
            "id": one.id,
        }
        for one in found
    ]
    shown = [
        "path",
        "kind",
        "bytes",
        "written",
        *(["removed", "id"] if removed else []),
    ]
    cells = [[one[column] for column in shown] for one in described]
    show(program, described, lambda: table(shown, cells))


@app.command()
def sync(
    program: Program,
    site: SiteArgument,
    name: Name,
    directory: Directory,
    allow_mass_delete: Annotated[
        bool,
        typer.Option(
            "--allow-mass-delete",
            help="Remove also an unusually large share of the files.",
        ),
    ] = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Go on, whenever something changes, until Ctrl-C."
        ),
    ] = False,
    every: Annotated[
        str, typer.Option(help="With --watch: how long it waits at most.")
    ] = "30s",
) -> None:
    """Bring a directory and a folder into step.

    What one side has changed since the last sync is done at the other; where both have
    changed a file, both stay. Needs only the site's own database: push and refresh its
    group for the rest. Ends with 3 if both sides had changed a file, or if something
    was left alone, such as a symbolic link; it names each and says why.

    Example: snaptide folder sync jfk docs ~/docs

    Example: snaptide folder sync jfk docs ~/docs --watch
    """
    if watch:
        if allow_mass_delete:
            raise BadArgument(
                "--allow-mass-delete is for a single sync: leave out --watch."
            )
        pause = duration("--every", every)
        for report in folders.watch(site, name, directory, every=pause):
            if _did_anything(report):
                _show(program, report)
        return
    with working(program, site, "folder sync") as shown, shown(name) as progress:
        report = folders.sync(
            site,
            name,
            directory,
            allow_mass_delete=allow_mass_delete,
            progress=progress,
        )
    _show(program, report)
    end_if(attention=report.left or report.conflicts)


@app.command(report=False)
def serve(
    program: Program,
    site: SiteArgument,
    name: Name,
    listen: Annotated[
        str,
        typer.Option(metavar="ADDRESS:PORT", help="Where it is reached; port 0: any."),
    ] = "127.0.0.1:8420",
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name under which it is reached, as behind a proxy."),
    ] = None,
) -> None:
    """Serve a folder by WebDAV, for file managers and programs on this machine.

    It asks nobody for a password, so it listens on addresses of this machine alone. For
    others, put a proxy before it that asks for one. It stops with Ctrl-C.

    Example: snaptide folder serve jfk docs
    """
    address, port = address_of(listen)
    if address.strip("[]") not in serving.LOOPBACK:
        raise BadArgument(
            f"Other machines could reach {address}, and it asks nobody for a password: "
            "listen on 127.0.0.1, and put a proxy before it."
        )
    hosts = (*serving.LOOPBACK, *(host or ()))
    serving.run(
        folders.application(site, name, hosts=hosts),
        address.strip("[]"),
        port,
        lambda port: typer.echo(f"{name} is at http://{address}:{port}/", err=True),
    )


@app.command()
def clean(
    program: Program,
    site: SiteArgument,
    name: Name,
    older_than: Annotated[
        str, typer.Option(help="How long ago a file was removed or overwritten.")
    ] = "30d",
) -> None:
    """Delete for good, at the master, what was removed or overwritten long ago.

    Example: snaptide folder clean hq docs --older-than 90d
    """
    age = duration("--older-than", older_than)
    show(program, folders.clean(site, name, older_than=age))


def _did_anything(report: SyncReport) -> bool:
    return any(getattr(report, name) for name in SyncReport.__slots__[3:])


def _show(program: Program, report: SyncReport) -> None:
    show(program, report, lambda: _shown(report))


def _shown(report: SyncReport) -> RenderableType:
    names = [name for name in SyncReport.__slots__ if name not in ("conflicts", "left")]
    parts: list[RenderableType] = [facts(report, names)]
    if report.conflicts:
        rows = [(path,) for path in report.conflicts]
        parts += [Text(), table(["changed on both sides, and kept as"], rows)]
    if report.left:
        parts += [Text(), table(["left alone", "because"], report.left.items())]
    return Group(*parts)
