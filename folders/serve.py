"""A folder served by WebDAV, so that file managers mount it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from folders import tables
from folders.sync import refuse_unloaded
from sites import Site
from sites.extras import require
from sites.sessions import identity

#: The names under which programs on this machine reach it.
LOOPBACK = ("localhost", "127.0.0.1", "::1")

#: A page that somebody has put into the folder, opened in a browser, must not read and
#: write the other files.
_HARMLESS = [
    ("Content-Security-Policy", "sandbox"),
    ("X-Content-Type-Options", "nosniff"),
]


def application(
    site: Site, name: str, *, hosts: Sequence[str] = LOOPBACK
) -> WSGIApplication:
    """A folder as a WSGI application that speaks WebDAV, class 2: with locks.

    It reads and writes the site's tables: a file in one transaction, and also a move or
    removal of a whole folder; a folder is copied file by file. Locks last as long as
    the application. It asks for no password.

    Parameters:
        site: a master, or a site with updatable snapshots of the folder's tables.
        name: the folder's name.
        hosts: the names under which it is reached: a request for another one is
            refused, as a page in a browser could make it.

    Raises:
        UnknownFolder: the site has no such folder, or its snapshots are not loaded yet
            or not updatable.
        NoFolderTable: its tables are not a folder's.
        MissingExtra: WsgiDAV is not installed.
    """
    require("folders")
    from wsgidav.error_printer import ErrorPrinter
    from wsgidav.http_authenticator import HTTPAuthenticator
    from wsgidav.request_resolver import RequestResolver
    from wsgidav.wsgidav_app import WsgiDAVApp

    from folders.dav import Provider

    wanted = tables.named(name)
    with identity.confirmed(site) as connection:
        tables.require(site, connection, wanted)
    refuse_unloaded(site, wanted)
    config = {
        "provider_mapping": {"/": Provider(site, wanted)},
        "simple_dc": {"user_mapping": {"*": True}},
        "middleware_stack": [ErrorPrinter, HTTPAuthenticator, RequestResolver],
        # What the tables do not have is refused, not kept until the server ends.
        "property_manager": False,
        "lock_storage": True,
        # Explorer of Windows sets times so, and takes a refusal for a failed copy.
        "hotfixes": {"emulate_win32_lastmod": True},
        "block_size": 2**16,
        "logging": {"enable": False},
        "verbose": 1,
    }
    return _only_named(WsgiDAVApp(config), frozenset(hosts))


def _only_named(inner: Any, hosts: frozenset[str]) -> WSGIApplication:
    def answer(
        environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return start_response(status, [*headers, *_HARMLESS], *more)

        if _host(environ) in hosts:
            answered: Iterable[bytes] = inner(environ, start)
            return answered
        start_response("421 Misdirected Request", [("Content-Length", "0")])
        return []

    return answer


def _host(environ: WSGIEnvironment) -> str | None:
    with suppress(ValueError):
        return urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname
    return None


def run(
    served: WSGIApplication, address: str, port: int, ready: Callable[[int], None]
) -> None:
    """Serve an application until it is interrupted.

    Parameters:
        ready: receives the port once it listens.
    """
    from cheroot import wsgi

    server = wsgi.Server((address, port), served, numthreads=10, max=20)
    server.prepare()
    try:
        ready(server.bind_addr[1])
        server.serve()
    finally:
        server.stop()
