"""Hosts for tests: processes that reach each other, and servers, by a network alone."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

#: Of 10.0.0.0/8, which machines seldom use whole: each run has a part of its own.
_PART = f"10.{64 + os.getpid() % 128}.{os.getpid() // 128 % 256}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """An address, and how a process gets there.

    Parameters:
        enter: words before a command that is to run there.
    """

    address: str
    enter: tuple[str, ...] = ()


@pytest.fixture
def hosts() -> Iterator[tuple[Host, ...]]:
    """This machine, as the others see it, and two others.

    The others are network namespaces, with a cable between each two of the three. If
    this user may make none, all three are addresses of the loopback.
    """
    if not _may_separate():
        yield tuple(Host(address=f"127.0.0.{n}") for n in (1, 2, 3))
        return
    with ExitStack() as running:
        spaces = [running.enter_context(_namespace()) for _ in range(2)]
        made = (
            Host(address=f"{_PART}.1"),
            *(
                Host(address=f"{_PART}.{number}", enter=_entering(space))
                for number, space in enumerate(spaces, 2)
            ),
        )
        homes = zip((os.getpid(), *spaces), made, strict=True)
        for number, ends in enumerate(itertools.combinations(homes, 2)):
            _connect(f"snap{os.getpid() % 10**7}{number}", ends)
        yield made


def _may_separate() -> bool:
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True)
    return tried.returncode == 0


@contextmanager
def _namespace() -> Iterator[int]:
    """A network of its own, with its cables: they go with the process that has it."""
    with subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) as holder:
        try:
            own, ours = (Path(f"/proc/{n}/ns/net") for n in (holder.pid, "self"))
            while own.readlink() == ours.readlink():
                time.sleep(0.01)
            _ip(_entering(holder.pid), "link", "set", "lo", "up")
            yield holder.pid
        finally:
            holder.kill()


def _entering(pid: int) -> tuple[str, ...]:
    return ("nsenter", f"--net=/proc/{pid}/ns/net")


def _connect(cable: str, ends: Sequence[tuple[int, Host]]) -> None:
    """Lay a cable between two hosts; each end knows who is at the other."""
    (one, here), (other, there) = ends
    _ip(
        (),
        *("link", "add", "name", cable, "netns", str(one), "type", "veth"),
        *("peer", "name", cable, "netns", str(other)),
    )
    for host, its_peer in ((here, there), (there, here)):
        _ip(host.enter, "address", "add", f"{host.address}/32", "dev", cable)
        _ip(host.enter, "link", "set", cable, "up")
        route = ("route", "add", f"{its_peer.address}/32", "dev", cable)
        _ip(host.enter, *route, "src", host.address)


def _ip(enter: Sequence[str], *words: str) -> None:
    subprocess.run([*enter, "ip", *words], check=True)
