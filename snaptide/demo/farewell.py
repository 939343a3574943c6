"""What one can try when the demo is left running."""

from __future__ import annotations

import sys
from pathlib import Path

from snaptide.demo.world import World
from snaptide.embedded.account import server_account
from snaptide.embedded.binaries import postgres_binaries
from snaptide.embedded.postgres import USER
from snaptide.settings import VARIABLE

_TRY = """\
export {variable}={config}
export PGPASSWORD="$(cat {password})"
{snaptide} status
{psql} jfk -c "UPDATE flights SET gate = 'B9' WHERE month = 1 AND day = 2"
{snaptide} status                       # pushed within two seconds
{snaptide} refresh lga airport          # lga sees nothing of it: WHERE origin = 'LGA'
{psql} hq -c "UPDATE airlines SET name = upper(name)"
{snaptide} refresh lga airport          # but this it sees
{snaptide} schedule set lga refresh airport --every 10s
{snaptide} rules list hq
{snaptide} doctor
"""


def next_steps(world: World) -> str:
    """Commands to copy, with the settings of the running demo, and how to end it."""
    program = Path(sys.argv[0]).absolute()
    snaptide = (
        program if program.name == "snaptide" else f"{sys.executable} -m snaptide"
    )
    return _TRY.format(
        variable=VARIABLE,
        config=world.servers.config,
        password=world.servers.postgres.folder / "password",
        snaptide=snaptide,
        psql=_psql(world),
    ) + (
        "\nLogs and data are in the folder of the settings. To stop it all:\n"
        f"{snaptide} demo --stop --folder {world.folder}"
    )


def _psql(world: World) -> str:
    server = world.servers.postgres
    account = server_account(server.folder / "data")
    psql = postgres_binaries(server.version, account) / "psql"
    return f"{psql} -h 127.0.0.1 -p {server.port} -U {USER}"
