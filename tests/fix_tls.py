"""TLS for tests: a real endpoint with a real certificate before a server.

The servers in the wheels are built without TLS. The endpoint speaks the server's
own way of beginning: PostgreSQL's request for TLS, or TLS from the first byte.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from snaptide.embedded.ports import free_port

#: The name in the certificate; it leads to this machine.
HOST = "localhost"

_GSS_REQUEST, _TLS_REQUEST = 80877104, 80877103


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A certificate authority: the file that clients trust, and what servers show."""

    file: Path
    context: ssl.SSLContext


class TlsEndpoint:
    """Takes TLS from clients and passes what is in it to one server.

    Parameters:
        target_url: of the server.
        context: with the certificate.
        asks_first: clients ask for TLS in PostgreSQL's protocol before it begins.
    """

    def __init__(
        self, target_url: str, context: ssl.SSLContext, *, asks_first: bool
    ) -> None:
        target = urlsplit(target_url)
        self._target = (target.hostname, target.port)
        self._context = context
        self._asks_first = asks_first
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._writers: list[asyncio.StreamWriter] = []
        self.port = free_port()
        #: how many clients went through TLS
        self.encrypted = 0

    def start(self) -> None:
        """Accept connections."""
        self._thread.start()
        assert self._ready.wait(90)

    def stop(self) -> None:
        """Drop all connections."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(90)

    def _run(self) -> None:
        asyncio.run(self._accept())

    async def _accept(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        direct = None if self._asks_first else self._context
        server = await asyncio.start_server(self._serve, HOST, self.port, ssl=direct)
        self._ready.set()
        await self._over.wait()
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writers.append(writer)
        # A client that does not trust the certificate leaves in the middle.
        with suppress(OSError, asyncio.IncompleteReadError):
            if self._asks_first:
                await self._begin(reader, writer)
            self.encrypted += 1
            there = await asyncio.open_connection(*self._target)
            self._writers.append(there[1])
            await asyncio.gather(_pass_on(reader, there[1]), _pass_on(there[0], writer))
        writer.close()

    async def _begin(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            asked = int.from_bytes((await reader.readexactly(8))[4:], "big")
            if asked == _TLS_REQUEST:
                break
            if asked != _GSS_REQUEST:  # a client that would go on in plain text
                raise ConnectionError
            writer.write(b"N")
        writer.write(b"S")
        await writer.drain()
        await writer.start_tls(self._context)


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    finally:
        sink.close()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that the certificate of every endpoint comes from."""
    made = trustme.CA()
    file = tmp_path_factory.mktemp("tls") / "ca.pem"
    made.cert_pem.write_to_path(str(file))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.issue_cert(HOST).configure_cert(context)
    return Authority(file=file, context=context)


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """The file of an authority that nobody has a certificate of."""
    file = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(str(file))
    return file


@pytest.fixture
def make_endpoint(authority: Authority) -> Iterator[Callable[..., TlsEndpoint]]:
    """A function that puts a TLS endpoint before the server of a URL."""
    made: list[TlsEndpoint] = []

    def make(url: str, *, asks_first: bool) -> TlsEndpoint:
        endpoint = TlsEndpoint(url, authority.context, asks_first=asks_first)
        endpoint.start()
        made.append(endpoint)
        return endpoint

    yield make
    for endpoint in made:
        endpoint.stop()
