"""Chooses a loopback port once and keeps it, so that a server keeps its address."""

import secrets
import socket
from pathlib import Path

from tenacity import stop_after_delay, wait_fixed

from sites import retry
from snaptide.embedded.errors import EmbeddedServerError

HOST = "127.0.0.1"

# Below the range that systems use for outgoing connections: in that range, a client
# that keeps trying a dead server's port can end up connected to itself.
_FIRST, _LAST = 15_000, 32_000

#: A killed server may hold its port for so many seconds.
PATIENCE = 10.0


def is_free(port: int) -> bool:
    """Tell whether a server could listen on the port now."""
    with socket.socket() as probe:
        # Ignore connections in TIME_WAIT, as servers do.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port that no server listens on."""
    for _ in range(1000):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        if is_free(port):
            return port
    raise EmbeddedServerError(
        f"no free port found between {_FIRST} and {_LAST}",
        hint="Stop some of the servers that listen on 127.0.0.1.",
    )


def kept_port(file: Path) -> int:
    """Return the port in the file; choose and write one if there is no file yet."""
    if not file.exists():
        file.write_text(str(free_port()))
    return int(file.read_text())


def require_free(port: int, file: Path) -> None:
    """Refuse to start a server whose port another program has taken."""
    # The last threads of a killed server hold its port for a moment.
    if not retry.until(
        lambda: is_free(port), stop=stop_after_delay(PATIENCE), wait=wait_fixed(0.02)
    ):
        raise EmbeddedServerError(
            f"port {port} is used by another program",
            hint=f"Stop that program, or delete {file} to have another port chosen.",
        )
