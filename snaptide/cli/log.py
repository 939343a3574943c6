"""`snaptide log`: administers snapshot logs at masters."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from sqlalchemy import select

import masters
from masters.catalog import registered_snapshot
from masters.log import arming, registration
from sites import Site
from sites.sessions import identity
from snapshots.refreshing import former
from snaptide.cli import snapshot_columns
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.failures import end_if
from snaptide.cli.output import facts, show, show_facts, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs
from snaptide.errors import BadArgument, NotRegistered

app = Verbs()

_TABLE = typer.Argument(metavar="TABLE", help="table or schema.table")
TableName = Annotated[str, _TABLE]
MaybeTable = Annotated[str | None, _TABLE]
PartitionColumns = Annotated[
    str,
    typer.Option(
        "--partition-columns",
        metavar="COLUMN,...",
        help="Up to three columns whose values are recorded, so that snapshots whose "
        "conditions compare them with constants read only changes of theirs.",
    ),
]


@app.command()
def create(
    program: Program,
    site: SiteArgument,
    name: MaybeTable = None,
    all_tables: Annotated[
        bool, typer.Option("--all", help="All tables of a schema that have no log.")
    ] = False,
    schema: Annotated[
        str, typer.Option(help="The schema of --all, as the catalog has it.")
    ] = "public",
    with_rowid: Annotated[
        bool,
        typer.Option(
            "--with-rowid",
            help="Add a generated column to the table that identifies its rows; for "
            "tables without a primary key, or whose keys change.",
        ),
    ] = False,
    partition_columns: PartitionColumns = "",
) -> None:
    """Record the changes of a master table, or of all tables, from now on.

    With --all it ends with 3 if a table cannot have a log; it names each and says why.

    Example: snaptide log create hq flights

    Example: snaptide log create hq flights --partition-columns origin
    """
    of_one = with_rowid or partition_columns
    if (name is None) != all_tables or (all_tables and of_one):
        raise BadArgument(
            "Give a TABLE, or --all without --with-rowid and --partition-columns."
        )
    if name is None:
        _create_all(program, site, schema)
        return
    made = masters.create_snapshot_log(
        site,
        name,
        with_rowid=with_rowid,
        partition_columns=snapshot_columns.split(partition_columns or None) or (),
    )
    show(program, made, lambda: with_triggers(facts(made), made.triggers))


def _create_all(program: Program, site: Site, schema: str) -> None:
    made = masters.create_snapshot_logs(site, schema)
    rows = [
        (one.table, one.refused or ("created" if one.created else "was there"))
        for one in made
    ]
    triggers = sorted(
        {name for one in made if one.created for name in one.created.triggers}
    )
    show(program, made, lambda: with_triggers(table(["table", "log"], rows), triggers))
    end_if(attention=any(one.refused for one in made))


@app.command()
def alter(
    program: Program,
    site: SiteArgument,
    table: TableName,
    partition_columns: PartitionColumns,
) -> None:
    """Record the values of other columns; of none, if the list is empty.

    Each snapshot reads once more all that the log holds already. Writers of the table
    wait while the log gets its indexes.

    Example: snaptide log alter hq flights --partition-columns origin,carrier

    Example: snaptide log alter hq flights --partition-columns ""
    """
    made = masters.alter_snapshot_log(
        site,
        table,
        partition_columns=snapshot_columns.split(partition_columns or None) or (),
    )
    show(program, made, lambda: facts(made))


@app.command("list")
def list_(program: Program, site: SiteArgument) -> None:
    """List the snapshot logs of a master, and the snapshots that need them.

    Example: snaptide log list hq
    """
    logs = masters.list_snapshot_logs(site)
    rows = [
        (
            log.table,
            log.identity_columns,
            log.partition_columns,
            log.rows,
            log.snapshots,
            log.created_at,
        )
        for log in logs
    ]
    columns = ["table", "identified by", "partition columns", "rows (estimate)"]
    columns += ["snapshots", "created"]
    show(program, logs, lambda: table(columns, rows))


@app.command()
def drop(
    program: Program,
    site: SiteArgument,
    table: TableName,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Drop it even if snapshots use it: they then need a complete refresh.",
        ),
    ] = False,
) -> None:
    """Stop recording a master table's changes.

    Example: snaptide log drop hq flights
    """
    masters.drop_snapshot_log(site, table, force=force)
    show_facts(program, site=site.name, dropped=table)


@app.command()
def repair(
    program: Program,
    site: SiteArgument,
    name: MaybeTable = None,
    printing: Annotated[
        bool,
        typer.Option(
            "--print",
            help="Print what a superuser runs once, so that new partitions get their "
            "triggers at once; change nothing.",
        ),
    ] = False,
) -> None:
    """Have changes of new partitions and children recorded in the logs of their tables.

    Creates the triggers that they lack, and switches on those that are off. A refresh
    does it, too. Creates also the event trigger that does it from then on in the
    statement that makes a partition, if the site's user may.

    Example: snaptide log repair hq

    Example: snaptide log repair hq flights
    """
    if printing:
        show(program, _for_superuser(), lambda: Text(_for_superuser()))
        return
    repaired = masters.repair_snapshot_logs(site, name)
    rows = [(one.table, one.parts) for one in repaired]
    columns = ["table", "changes were not recorded of"]
    show(program, repaired, lambda: table(columns, rows))


def _for_superuser() -> str:
    """The statements that create the event trigger, as a script for psql."""
    statements = [one.as_string() for one in arming.statements()]
    return ";\n".join(["BEGIN", *statements, "COMMIT;"])


@app.command()
def purge(program: Program, site: SiteArgument) -> None:
    """Empty the parts of all logs that every snapshot has seen.

    Example: snaptide log purge hq
    """
    reports = masters.purge_snapshot_logs(
        site, deletes_kept=program.settings.resolution.deletes_kept
    )
    rows = [(r.table, r.emptied, r.busy, r.horizon) for r in reports]
    columns = ["table", "partitions emptied", "busy", "needed from transaction"]
    show(program, reports, lambda: table(columns, rows))


@app.command()
def unregister(
    program: Program,
    site: SiteArgument,
    owner: Annotated[
        str,
        typer.Argument(metavar="SNAPSHOT_SITE", help="The site that had the snapshot."),
    ],
    snapshot: Annotated[str, typer.Argument(metavar="SNAPSHOT")],
    lost: Annotated[
        bool,
        typer.Option(
            "--lost",
            help="SITE is lost for good: SNAPSHOT_SITE, which has switched to another "
            "master, tells it no more that the snapshot has left.",
        ),
    ] = False,
) -> None:
    """Forget a snapshot that is gone, so that the log need not wait for it.

    A snapshot that still exists has to be refreshed completely afterwards.

    Example: snaptide log unregister hq jfk flights
    """
    if lost:
        _give_up(program.site(owner), site.name, snapshot)
    else:
        _forget(site, owner, snapshot)
    show_facts(program, site=site.name, dropped=f"{owner}:{snapshot}")


def _give_up(home: Site, master: str, snapshot: str) -> None:
    with identity.initialised(home) as connection:
        if not former.give_up(connection, master, snapshot):
            raise NotRegistered(
                f"Site {home.name} has nothing to tell {master} of {snapshot}."
            )


def _forget(master: Site, owner: str, snapshot: str) -> None:
    at = registered_snapshot.c
    wanted = select(at.site_id).where(at.site_name == owner, at.snapshot == snapshot)
    with identity.initialised(master) as connection:
        found = connection.scalars(wanted).all()
        if not found:
            raise NotRegistered(
                f"No snapshot {owner}:{snapshot} is registered at {master.name}."
            )
        for site_id in found:
            registration.unregister(connection, site_id, [snapshot])


_WRITTEN_TWICE = (
    "These triggers also fire for changes of other sites: {}. If one of them writes "
    "replicated rows, and has done so where the change was made, those rows are "
    "written twice. Make it write them only if snaptide.comes_from() IS NULL."
)


def with_triggers(shown: RenderableType, names: Collection[str]) -> RenderableType:
    """Add a warning about these triggers, if any, below the output."""
    if not names:
        return shown
    return Group(shown, Text(_WRITTEN_TWICE.format(", ".join(names))))
