"""What a user is told of an error that is a library's."""

import psycopg
import pytest
from psycopg import errors

from sites.errors import SiteUnreachable, SnaptideError
from snaptide.asking import as_told
from snaptide.errors import DatabaseError, NotPermitted, NotThere, Unexpected


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errors.DiskFull("no space left\nHINT: free some"), DatabaseError),
        (errors.UndefinedColumn("no column joins\nHINT: another"), NotThere),
        (errors.InsufficientPrivilege("permission denied"), NotPermitted),
        (errors.AdminShutdown("terminating connection"), SiteUnreachable),
        (psycopg.OperationalError("the connection is closed"), SiteUnreachable),
        (ValueError("another"), Unexpected),
    ],
)
def test_errors_of_the_driver_become_ours(
    error: Exception, told: type[SnaptideError]
) -> None:
    assert type(as_told(error)) is told
    assert "HINT" not in as_told(error).message
