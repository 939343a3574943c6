"""Which rows a first load carries as the servers hold them, not as text."""

from __future__ import annotations

import pytest

from snapshots.refreshing.first_load import fit_in_binary


@pytest.mark.parametrize(
    ("there", "here", "fit"),
    [
        (["uuid", "integer", "bytea"], ["uuid", "integer", "bytea"], True),
        (["uuid", "integer", "bytea"], ["uuid", "bigint", "bytea"], False),
        (["integer", "text"], ["integer", "text"], False),
        (["numeric", "bytea"], ["numeric", "bytea"], False),
        (["public.mood", "bytea"], ["public.mood", "bytea"], False),
    ],
)
def test_bytes_among_types_that_all_servers_send_alike(
    there: list[str], here: list[str], fit: bool
) -> None:
    assert fit_in_binary(there, here) is fit
