"""A folder served by WebDAV: a server of its own, asked as file managers ask."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from xml.etree import ElementTree

import pytest
from wsgidav.dav_error import DAVError

import folders
from folders import tables
from folders.dav import Provider
from sites import Directory, Site
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings
from tests.foldered import captured, paths, publish, step
from tests.linked_table import run, scalar


class Client:
    """Asks one server, on one connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.body = b""

    def __call__(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> int:
        """Ask; the answer's status."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if "Destination" in named:
            named["Destination"] = (
                f"http://127.0.0.1:{self._port}{headers['Destination']}"
            )
        with closing(connection):
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            # WsgiDAV refuses paths that lead out of it without a body.
            self.body = b"" if answer.status == 400 else answer.read()
            self.headers = answer.headers
            return answer.status

    def hrefs(self, path: str, depth: str = "1") -> list[str]:
        """What lies at a path."""
        assert self("PROPFIND", path, Depth=depth) == 207
        found = ElementTree.fromstring(self.body).iter("{DAV:}href")
        return sorted(str(one.text) for one in found)


@pytest.fixture
def serve(
    sites: Directory, write_settings: WriteSettings
) -> Iterator[Callable[[str], Client]]:
    """Serves the folder of a site, in a process of its own."""
    config = write_settings(sites)
    started: list[subprocess.Popen[str]] = []

    def start(site: str) -> Client:
        line = ("folder", "serve", site, "docs", "--listen", "127.0.0.1:0")
        process = subprocess.Popen(
            [sys.executable, "-m", "snaptide", "--config", str(config), *line],
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stderr is not None
        said = process.stderr.readline()
        assert "docs is at http://127.0.0.1:" in said, said + process.stderr.read()
        return Client(int(said.rpartition(":")[2].strip("/\n")))

    yield start
    for process in started:
        process.terminate()
        process.wait(30)
        assert process.stderr is not None
        process.stderr.close()


def test_files_are_put_read_moved_and_removed(
    hq: Site, serve: Callable[[str], Client], tmp_path: Path
) -> None:
    folders.create(hq, "docs")
    ask = serve("hq")
    large = bytes(range(256)) * 9000  # three pieces
    assert ask("OPTIONS", "/") == 200
    assert "2" in ask.headers["DAV"]
    assert ask("PUT", "/x/report.bin", large) == 409
    assert ask("MKCOL", "/x") == 201
    assert ask("PUT", "/x/report.bin", large) == 201
    assert ask("PUT", "/x/l%C3%A4rm.txt", b"one") == 201
    assert ask("PUT", "/x/l%C3%A4rm.txt", b"two") == 204
    assert ask("GET", "/x/report.bin") == 200
    assert ask.body == large
    assert ask("GET", "/x/report.bin", Range="bytes=1048570-1048585") == 206
    assert ask.body == large[1048570:1048586]
    assert ask.hrefs("/") == ["/", "/x/"]
    assert ask.hrefs("/x/") == ["/x/", "/x/l%C3%A4rm.txt", "/x/report.bin"]

    # What was overwritten is still there; a move carries no content.
    removed = folders.list_files(hq, "docs", removed=True)
    assert [(one.path, one.size) for one in removed] == [("x/lärm.txt", 3)]
    pieces = scalar(
        hq, "SELECT array_agg(xmin::text ORDER BY entry, n) FROM docs_chunk"
    )
    assert ask("MOVE", "/x/", Destination="/y/") == 201
    assert paths(hq) == ["y", "y/lärm.txt", "y/report.bin"]
    assert pieces == scalar(
        hq, "SELECT array_agg(xmin::text ORDER BY entry, n) FROM docs_chunk"
    )
    assert ask("COPY", "/y/", Destination="/z/") == 201
    assert (
        ask("MOVE", "/z/report.bin", Destination="/y/report.bin", Overwrite="F") == 412
    )
    assert ask("MOVE", "/z/report.bin", Destination="/y/report.bin") == 204
    assert ask("GET", "/y/report.bin") == 200
    assert ask.body == large
    assert ask("DELETE", "/z/l%C3%A4rm.txt") == 204
    assert ask.hrefs("/z/") == ["/z/"]
    assert ask("DELETE", "/z/") == 204
    assert ask("GET", "/z/") == 404
    step(hq, tmp_path / "docs")
    assert (tmp_path / "docs" / "y" / "report.bin").read_bytes() == large


def test_what_would_replace_the_folder_that_it_lies_in_is_refused(
    hq: Site, serve: Callable[[str], Client]
) -> None:
    folders.create(hq, "docs")
    ask = serve("hq")
    for folder in ("/a", "/a/b"):
        assert ask("MKCOL", folder) == 201
    for file in ("/a/b/x.txt", "/a/y.txt"):
        assert ask("PUT", file, b"x") == 201
    before = paths(hq)
    for method in ("MOVE", "COPY"):
        assert ask(method, "/a/b/", Destination="/a/") == 403
        assert ask(method, "/a/y.txt", Destination="/a") == 403
    assert paths(hq) == before


def test_a_file_that_others_write_during_an_upload_is_not_replaced(hq: Site) -> None:
    folders.create(hq, "docs")
    provider = Provider(hq, tables.named("docs"))
    environ = {"REQUEST_METHOD": "PUT", "wsgidav.provider": provider}
    top = provider.get_resource_inst("/", environ)
    slow, quick = (top.create_empty_resource("a.txt") for _ in range(2))
    slow.begin_write().write(b"slow")
    for text in (b"quick", b"quicker"):
        quick.begin_write().write(text)
        quick.end_write(with_errors=False)
    with pytest.raises(DAVError) as refused:
        slow.end_write(with_errors=False)
    assert refused.value.value == 409
    assert provider.get_resource_inst("/a.txt", environ).get_content().read() == text


@pytest.mark.parametrize("what", ["delete", "move", "replace"])
def test_a_file_that_others_have_written_meanwhile_is_left(hq: Site, what: str) -> None:
    folders.create(hq, "docs")
    provider = Provider(hq, tables.named("docs"))
    environ = {"REQUEST_METHOD": "PUT", "wsgidav.provider": provider}
    for name in ("a.txt", "b.txt"):
        file = provider.get_resource_inst("/", environ).create_empty_resource(name)
        file.begin_write().write(b"before")
        file.end_write(with_errors=False)
    found, other = (
        provider.get_resource_inst(f"/{name}.txt", environ) for name in "ab"
    )
    newer = provider.get_resource_inst("/a.txt", environ)
    newer.begin_write().write(b"newer")
    newer.end_write(with_errors=False)
    verbs = {
        "delete": found.delete,
        "move": partial(found.move_recursive, "/c.txt"),
        "replace": partial(other._move, "/a.txt", found),
    }
    with pytest.raises(DAVError) as refused:
        verbs[what]()
    assert refused.value.value == 409
    for name, content in (("a", b"newer"), ("b", b"before")):
        left = provider.get_resource_inst(f"/{name}.txt", environ)
        assert left.get_content().read() == content


def test_a_file_that_is_gone_does_not_take_the_place_of_another(hq: Site) -> None:
    """As when a refresh takes its row away after it was found."""
    folders.create(hq, "docs")
    provider = Provider(hq, tables.named("docs"))
    environ = {"REQUEST_METHOD": "PUT", "wsgidav.provider": provider}
    top = provider.get_resource_inst("/", environ)
    for name in ("a.txt", "b.txt"):
        file = top.create_empty_resource(name)
        file.begin_write().write(name.encode())
        file.end_write(with_errors=False)
    found = provider.get_resource_inst("/a.txt", environ)
    run(hq, "DELETE FROM docs_entry WHERE path = 'a.txt'")
    with pytest.raises(DAVError) as refused:
        found.copy_move_single("/b.txt", is_move=False)
    assert refused.value.value == 409
    left = provider.get_resource_inst("/b.txt", environ)
    assert left.get_content().read() == b"b.txt"


def test_names_that_no_folder_can_have_are_refused(
    hq: Site, serve: Callable[[str], Client]
) -> None:
    folders.create(hq, "docs")
    ask = serve("hq")
    assert ask("PUT", "/a.txt", b"a") == 201
    assert ask("PUT", "/A.txt", b"a") == 409
    assert ask("PUT", "/%C3%A9.txt", b"composed") == 201
    for alike in ("e%CC%81.txt", "%C3%89.txt"):
        assert ask("PUT", f"/{alike}", b"a") == 409
    assert ask("DELETE", "/%C3%A9.txt") == 204
    assert ask("MOVE", "/a.txt", Destination="/A.txt") == 201
    assert ask("PUT", "/con.txt", b"a") == 403
    assert ask("MKCOL", "/what%3F") == 403
    assert ask("PUT", "/../out", b"a") == 400
    assert ask("PUT", f"/{'n' * 300}", b"a") == 403
    assert ask("GET", "/a%00b") == 403
    assert paths(hq) == ["A.txt"]
    for host in ("rebound.example", "[::1"):
        assert ask("GET", "/A.txt", Host=host) == 421


def test_a_page_in_the_folder_cannot_use_the_others(
    hq: Site, serve: Callable[[str], Client]
) -> None:
    folders.create(hq, "docs")
    ask = serve("hq")
    assert ask("PUT", "/page.html", b"<script>fetch('/secret')</script>") == 201
    assert ask("GET", "/page.html") == 200
    assert ask.headers["Content-Security-Policy"] == "sandbox"
    assert ask.headers["X-Content-Type-Options"] == "nosniff"


def test_a_lock_keeps_others_out(hq: Site, serve: Callable[[str], Client]) -> None:
    folders.create(hq, "docs")
    ask = serve("hq")
    wanted = (
        b'<?xml version="1.0"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/>'
        b"</D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>"
    )
    assert ask("LOCK", "/a.txt", wanted, Timeout="Second-600") == 201
    token = ask.headers["Lock-Token"]
    assert ask("PUT", "/a.txt", b"theirs") == 423
    assert ask("PUT", "/a.txt", b"mine", If=f"({token})") == 204
    assert ask("UNLOCK", "/a.txt", Lock_Token=token) == 204
    assert ask("PUT", "/a.txt", b"theirs") == 204
    assert ask("GET", "/a.txt") == 200
    assert ask.body == b"theirs"


@pytest.mark.usefixtures("spark")
def test_a_site_serves_its_part_and_queues_what_is_written(
    sites: Directory, serve: Callable[[str], Client]
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    publish(hq, jfk, where="path LIKE 'jfk/%'")
    ask = serve("jfk")
    assert ask("MKCOL", "/lga") == 403
    assert ask("MKCOL", "/jfk/") == 403
    run(
        jfk,
        "INSERT INTO docs_entry (id, path, kind, size, mtime)"
        " VALUES (gen_random_uuid(), 'jfk/new', 'folder', 0, now())",
    )
    assert ask("PUT", "/jfk/a.txt", b"abc") == 201
    assert ("docs_chunk", "I", 1) in captured(jfk)
    assert ask("DELETE", "/jfk/a.txt") == 204


def test_other_machines_are_not_served(snaptide: Snaptide, hq: Site) -> None:
    folders.create(hq, "docs")
    said = snaptide.said(
        "folder", "serve", "hq", "docs", "--listen", "0.0.0.0:0", code=2
    )
    assert "put a proxy before it" in said
