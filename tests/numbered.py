"""Sites that lease numbers, are restored and copied, and all the numbers they drew."""

from __future__ import annotations

from sqlalchemy.engine import make_url

from sites import Directory, Site
from tests.fix_db import Clone
from tests.let_go import wait_until_let_go
from tests.linked_table import run

#: As a rollback of the files leaves it: the same database by every number.
UNNOTICED = """
UPDATE snaptide.site_identity SET database_oid =
    (SELECT oid::int8 FROM pg_database WHERE datname = current_database())
"""


class NumberedWorld:
    """Sites that can be restored, and the numbers that each of them has drawn."""

    def __init__(self, sites: Directory, clone: Clone) -> None:
        self.urls = {
            name: site.url.render_as_string(hide_password=False)
            for name, site in sites.items()
        }
        sites.close()
        self.clone = clone
        self.directory = Directory(self.urls)
        self.drawn: list[int] = []

    def __getitem__(self, name: str) -> Site:
        return self.directory[name]

    def insert(self, name: str, count: int = 1) -> list[int]:
        """Insert rows at a site, as its users do, and return their numbers."""
        rows = run(
            self[name],
            f"INSERT INTO orders (shop) SELECT '{name}'"
            f" FROM generate_series(1, {count}) RETURNING id",
        )
        got = [row[0] for row in rows]
        self.drawn += got
        return got

    def backup(self, name: str) -> str:
        self.directory.close()
        wait_until_let_go([self[name]])
        self.directory.close()
        url = self.clone(str(make_url(self.urls[name]).database), "backup")
        return str(make_url(url).database)

    def restore(self, name: str, backup: str, *, noticed: bool = True) -> None:
        self.directory.close()
        self.urls[name] = self.clone(backup, name)
        self.directory = Directory(self.urls)
        if not noticed:
            run(self[name], UNNOTICED)

    def assert_no_number_twice(self) -> None:
        assert sorted(self.drawn) == sorted(set(self.drawn))
