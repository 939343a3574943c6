"""A server is found again by its number and its time of birth."""

import os
from pathlib import Path

import psutil
import pytest

from snaptide.embedded.daemon import Daemon


@pytest.mark.parametrize(
    ("seconds", "same"),
    [(0, True), (-30, True), (30, True), (-600, False), (600, False)],
)
def test_a_clock_that_is_set_does_not_lose_the_server(
    tmp_path: Path, seconds: int, *, same: bool
) -> None:
    born = psutil.Process().create_time() + seconds
    (tmp_path / "server.pid").write_text(f"{os.getpid()} {born}")
    assert (Daemon(tmp_path, "server").process() is not None) is same
