"""What a user can try while the demo is left running: commands, and the console."""

from __future__ import annotations

import secrets
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from snaptide import VARIABLE
from snaptide.demo.world import World
from snaptide.embedded.account import server_account
from snaptide.embedded.binaries import postgres_binaries
from snaptide.embedded.ports import HOST, kept_port
from snaptide.embedded.postgres import USER

#: The console's user.
_CONSOLE_USER = "demo"

#: So many seconds it may take to answer.
_LIMIT = 60

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
        console_user=_CONSOLE_USER,
        console_password=_password_file(world.folder),
        folder=_quoted(world.folder),
    )


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _password_file(folder: Path) -> Path:
    """The file with the user's password."""
    return folder / "console-password"


def start_console(world: World) -> str:
    """Start the console, and return its address when it answers.

    Raises:
        DemoFailed: it does not answer in time.
    """
    listen = f"{HOST}:{kept_port(world.folder / 'console.port')}"
    _make_user(world)
    processes = world.processes
    processes.start(processes.console("--listen", listen))
    address = f"http://{listen}/"
    processes.wait(
        "the console answers", lambda: _answers(f"{address}healthz"), seconds=_LIMIT
    )
    return address


def _make_user(world: World) -> None:
    file, password = _password_file(world.folder), secrets.token_urlsafe()
    file.touch(mode=0o600)
    file.write_text(password)
    words = ("-m", "snaptide", "--config", str(world.servers.config), "user", "set")
    subprocess.run(
        [sys.executable, *words, _CONSOLE_USER, "--role", "administrator"],
        input=password,
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=5):
            return True
    except URLError:
        return False
