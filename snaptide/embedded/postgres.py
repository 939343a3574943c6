"""Runs a PostgreSQL server from the wheel, with its data in a folder."""

import os
import secrets
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg import sql

from snaptide.embedded.account import Account, run_as, server_account
from snaptide.embedded.binaries import postgres_binaries
from snaptide.embedded.daemon import Server
from snaptide.embedded.errors import EmbeddedServerError
from snaptide.embedded.ports import HOST, require_free

USER = "postgres"

# initdb writes these settings into the server's configuration file.
_SETTINGS = {
    "listen_addresses": HOST,
    # No socket file: its path may be too long, and one way in is enough.
    "unix_socket_directories": "",
    "password_encryption": "scram-sha-256",
    "max_connections": "200",
    # Two-phase commit is off by default.
    "max_prepared_transactions": "64",
    "wal_level": "replica",
    "fsync": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "lc_messages": "C",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %d ",
}


class PostgresServer(Server):
    """An embedded PostgreSQL server; its folder holds data, password, port and log."""

    def __init__(
        self,
        folder: Path,
        version: int = 18,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, "postgresql")
        self.version = version
        self._settings = {**_SETTINGS, **(settings or {})}
        self._data = self.folder / "data"
        self._password_file = self.folder / "password"

    def __repr__(self) -> str:
        return f"PostgresServer({str(self.folder)!r}, version={self.version})"

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database, with the password: do not print it."""
        password = self._password_file.read_text()
        return f"postgresql://{USER}:{password}@{HOST}:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, unless it runs; create its data first if there is none."""
        if self.is_running():
            self._daemon.wait_until(self._answers, seconds=60)
            return
        account = server_account(self._data)
        binaries = postgres_binaries(self.version, account)
        if not (self._data / "PG_VERSION").exists():
            self._make(binaries, account)
        self._check_version()
        self._check_folder(account)
        require_free(self.port, self._port_file)
        self._daemon.launch(
            [binaries / "postgres", "-D", self._data, "-p", str(self.port)],
            cwd=self._data,
            run_as=run_as(account),
        )
        self._daemon.wait_until(self._answers, seconds=60)

    def stop(self) -> None:
        """Stop the server cleanly: it ends its sessions and loses nothing."""
        if self._daemon.end(signal.SIGINT, seconds=30):
            return
        # Immediate shutdown: the next start recovers from the log.
        if not self._daemon.end(signal.SIGQUIT, seconds=10):
            self.kill()

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """Create a database, as a copy of another one if asked, and return its URL."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            # Copying files takes a fraction of the time where the template is small.
            statement += sql.SQL(" TEMPLATE {} STRATEGY FILE_COPY").format(
                sql.Identifier(template)
            )
        self._execute(statement)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, ending the sessions that use it."""
        self._execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(
                sql.Identifier(name)
            )
        )

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _make(self, binaries: Path, account: Account | None) -> None:
        self._prepare_folder(account)
        command = [
            str(binaries / "initdb"),
            f"--pgdata={self._data}",
            f"--username={USER}",
            f"--pwfile={self._password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--no-instructions",
            *_locale(self.version),
            *(f"--set={name}={value}" for name, value in self._settings.items()),
        ]
        done = subprocess.run(  # type: ignore[call-overload]
            command, cwd=self.folder, capture_output=True, text=True, **run_as(account)
        )
        if done.returncode:
            raise EmbeddedServerError(
                f"PostgreSQL could not make its data folder: {done.stderr.strip()}",
                hint=f"Look at {self.folder}: it must be writable, with 100 MB free.",
            )

    def _prepare_folder(self, account: Account | None) -> None:
        """Make the folder, the password and an empty data folder for the account."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(secrets.token_urlsafe(24))
        self._data.mkdir(mode=0o700, exist_ok=True)
        if account is None:
            return
        # The server's account has to enter this folder, but not to list it.
        self.folder.chmod(self.folder.stat().st_mode | 0o111)
        self._check_folder(account)
        for path in (self._password_file, self._data):
            path.chmod(0o700 if path.is_dir() else 0o600)
            os.chown(path, account.uid, account.gid)

    def _check_folder(self, account: Account | None) -> None:
        if account is not None and not account.may_enter(self.folder):
            raise EmbeddedServerError(
                f"the account that runs PostgreSQL cannot enter {self.folder}",
                hint="Choose a folder outside of root's home, as in /var/lib/snaptide.",
            )

    def _check_version(self) -> None:
        made_by = int((self._data / "PG_VERSION").read_text())
        if made_by != self.version:
            raise EmbeddedServerError(
                f"{self._data} belongs to PostgreSQL {made_by}, not {self.version}",
                hint=f"Ask for version {made_by}, or choose another folder.",
            )


def _locale(version: int) -> list[str]:
    """The options of initdb that make text sort alike on every machine."""
    if version < 17:
        return ["--locale=C"]
    return [
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
    ]
