"""A check of a group by a login that may not read all of a master."""

import pytest
from sqlalchemy.exc import DBAPIError

import groups
from groups.errors import MasterUnreadable
from sites import Directory
from snaptide.embedded import PostgresServer
from tests.fix_worlds import prepared_once
from tests.granted import PASSWORD, login
from tests.grouped import GROUP
from tests.linked_table import run
from tests.three_masters import make_masters

pytestmark = pytest.mark.usefixtures("spark")

#: All that a login of the program needs but the tables of users.
OURS = (
    "GRANT snaptide_apply TO {}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA snaptide TO {}",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA snaptide TO {}",
)


@prepared_once("hq", "lax", "bos")
def sites(sites: Directory) -> None:
    make_masters(sites)


@pytest.mark.parametrize("asked", ["hq", "lax"])
def test_what_a_login_may_not_read_is_told_with_its_master(
    sites: Directory, server: PostgresServer, asked: str
) -> None:
    lax = sites["lax"]
    with login(server, lax) as name:
        urls = {one: site.url for one, site in sites.items()}
        urls["lax"] = lax.url.set(username=name, password=PASSWORD)
        with Directory(urls) as as_login:
            with pytest.raises(DBAPIError, match="permission denied"):
                groups.check(as_login[asked], GROUP, "orders")
            run(lax, *(one.format(name) for one in OURS))
            denied = f"{name}, the user of lax, .*denied for table orders"
            with pytest.raises(MasterUnreadable, match=denied) as refused:
                groups.check(as_login[asked], GROUP, "orders")
            assert refused.value.facts["master"] == "lax"
            run(lax, f"GRANT SELECT ON orders TO {name}")
            assert groups.check(as_login[asked], GROUP, "orders").equal
