"""`snaptide demo` with few flights: it ends well or says why not, and tidies up."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from benchmarks import spark_cluster
from snaptide.demo import place, story
from snaptide.web.users import Users
from tests.fix_db import new_folder
from tests.fix_spark import JAVA_OPTIONS

SECONDS = 400


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where the demo may live: not below a folder that only root can enter."""
    above = new_folder("snaptide-demo-")
    above.chmod(0o755)
    yield above / "demo"
    for process in living(above):
        process.kill()
    shutil.rmtree(above)


def start(
    folder: Path, *options: str, fault: str = "", **settings: str
) -> subprocess.Popen[str]:
    environment = {**os.environ, "SNAPTIDE_DEMO_ROWS": "2000", "SNAPTIDE_FAULT": fault}
    environment |= settings
    return subprocess.Popen(
        [sys.executable, "-m", "snaptide", "demo", "--folder", str(folder), *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(
    folder: Path, *options: str, fault: str = "", **settings: str
) -> tuple[int, str]:
    """Run the demo to its end, and return its number and what it printed."""
    with start(folder, *options, fault=fault, **settings) as demo:
        printed, _ = demo.communicate(timeout=SECONDS)
    return demo.returncode, printed


def living(folder: Path) -> list[psutil.Process]:
    """Processes that belong to a demo in this folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(folder) in f"{process.cwd()} {' '.join(process.cmdline())}":
                found.append(process)
    return found


@pytest.mark.timeout(2 * SECONDS)
def test_the_whole_story_and_what_it_leaves(folder: Path) -> None:
    status, printed = run(folder, "--keep")
    assert status == 0, printed
    for number, step in enumerate(story.STEPS, 1):
        assert f"{number}. {step.title}" in printed
    assert "All equal. Nothing is queued, held back or parked." in printed
    for method in ("latest_timestamp", "site_priority", "additive"):
        assert method in printed
    # It runs on, the console too, and the commands that it prints are right.
    [console] = re.findall(r"The console is at (http://\S+/) for user demo", printed)
    with urlopen(console) as page:
        assert "<h1>Log in</h1>" in page.read().decode()
    [password] = re.findall(r"\n(/\S+console-password)\n", printed)
    assert Users(folder / "snaptide.users").check("demo", Path(password).read_text())
    commands = _commands(printed)
    tried = subprocess.run(
        ["/bin/sh", "-ec", "\n".join(commands)], capture_output=True, text=True
    )
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert not living(folder)
    assert not folder.exists()


@pytest.mark.timeout(2 * SECONDS)
def test_the_same_story_on_a_spark_cluster(
    folder: Path, java_home: Path, tmp_path: Path
) -> None:
    conf = spark_cluster.settings() | {
        # It and its workers have a session each, with one executor.
        "spark.cores.max": "1",
        "spark.executor.memory": "512m",
        "spark.executor.defaultJavaOptions": JAVA_OPTIONS,
    }
    with spark_cluster.cluster(tmp_path, cores=4) as address:
        status, printed = run(
            folder,
            SNAPTIDE_SPARK__MASTER=address,
            SNAPTIDE_SPARK__CONF=json.dumps(conf),
        )
    assert status == 0, printed
    assert "All equal. Nothing is queued, held back or parked." in printed
    assert list(tmp_path.glob("app-*"))


def _commands(printed: str) -> list[str]:
    """The commands at the end of the story; the last one stops everything.

    Those that start Spark take long and are tried by other tests.
    """
    after = printed.split("To try next:")[1].splitlines()
    lines = [line.split(" #")[0].rstrip() for line in after[1:]]
    return [
        f"{line} || test $? = 3" if line.endswith(("status", "doctor")) else line
        for line in lines
        if re.match("export |snaptide |psql ", line) and " refresh " not in line
    ]


def test_a_step_that_fails_ends_it(folder: Path) -> None:
    status, printed = run(folder, fault="snapshot_create.before_commit:error")
    assert status == 1
    assert "Step 2. Snapshot logs, resolution rules, snapshots failed." in printed
    assert "why: snapshot_create.before_commit" in printed
    assert not living(folder)
    assert (folder / "postgresql" / "postgresql.log").exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_stops_what_it_started(
    folder: Path, how: signal.Signals
) -> None:
    with start(folder) as demo:
        assert demo.stdout is not None
        while "2. Snapshot logs" not in demo.stdout.readline():
            assert demo.poll() is None
        assert living(folder / "postgresql")
        demo.send_signal(how)
        demo.communicate(timeout=200)
    assert demo.returncode
    assert not living(folder)


def test_it_takes_no_folder_that_is_not_its_own(folder: Path) -> None:
    folder.mkdir()
    (folder / "letter").write_text("Dear all,")
    status, printed = run(folder)
    assert status == 1
    assert "SNP-481" in printed
    assert (folder / "letter").read_text() == "Dear all,"
    assert not place.is_ours(folder)


def test_a_step_that_takes_too_long_is_interrupted() -> None:
    long = "It took longer than 0[.]1 seconds[.]"
    with pytest.raises(story.TimeIsUp, match=long), story.limited(0.1):
        time.sleep(SECONDS)
