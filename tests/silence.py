"""A site that takes connections and never answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from sites import Directory


@contextmanager
def silent(sites: Directory, name: str) -> Iterator[Directory]:
    """The same sites, one of which is silent: it is only known by waiting for it."""
    urls = {one.name: one.url for one in sites.values()}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        urls[name] = urls[name].set(host="127.0.0.1", port=port, query={})
        with Directory(urls) as some:
            yield some
