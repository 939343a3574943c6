"""Commands that a user can try while the demo is left running."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from snaptide import VARIABLE
from snaptide.demo import console
from snaptide.demo.world import World
from snaptide.embedded.account import server_account
from snaptide.embedded.binaries import postgres_binaries
from snaptide.embedded.ports import HOST
from snaptide.embedded.postgres import USER

_TRY = """\
export PATH={here}:"$PATH":{binaries}
export {variable}={config}
export PGHOST={host} PGPORT={port} PGUSER={user} PGPASSWORD="$(cat {password})"
snaptide status
psql jfk -c "UPDATE flights SET gate = 'B9' WHERE month = 1 AND day = 1"
snaptide status                       # pushed within two seconds
snaptide refresh lga airport          # lga sees nothing of it: WHERE origin = 'LGA'
psql hq -c "UPDATE airlines SET name = upper(name)"
snaptide refresh lga airport          # but this it sees
snaptide schedule set lga refresh airport --every 10s
snaptide rules list hq
snaptide doctor

The console is at {address} for user {console_user}, whose password is in
{console_password}

Logs and data are in {folder}. To stop it all and remove them:
snaptide demo --stop --folder {folder}"""


def next_steps(world: World, address: str) -> str:
    """Commands to copy, which fit the running demo, and the command that ends it.

    Parameters:
        address: of the console.
    """
    server = world.servers.postgres
    account = server_account(server.folder / "data")
    return _TRY.format(
        here=_quoted(Path(sys.executable).parent),
        binaries=_quoted(postgres_binaries(server.version, account)),
        variable=VARIABLE,
        config=_quoted(world.servers.config),
        host=HOST,
        port=server.port,
        user=USER,
        password=_quoted(server.folder / "password"),
        address=address,
        console_user=console.USER,
        console_password=console.password_file(world.folder),
        folder=_quoted(world.folder),
    )


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
