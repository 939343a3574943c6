"""Runs the console of a demo that is kept, with a user who may do everything."""

from __future__ import annotations

import secrets
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from snaptide.demo.world import World
from snaptide.embedded.ports import HOST, kept_port

#: The console's user.
USER = "demo"

#: So many seconds it may take to answer.
LIMIT = 60


def password_file(folder: Path) -> Path:
    """The file with the user's password."""
    return folder / "console-password"


def start(world: World) -> str:
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
        "the console answers", lambda: _answers(f"{address}healthz"), seconds=LIMIT
    )
    return address


def _make_user(world: World) -> None:
    file, password = password_file(world.folder), secrets.token_urlsafe()
    file.touch(mode=0o600)
    file.write_text(password)
    words = ("-m", "snaptide", "--config", str(world.servers.config), "user", "set")
    subprocess.run(
        [sys.executable, *words, USER, "--role", "administrator"],
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
