"""A restored site or master is noticed before it is changed synchronously."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import text

import synchronous
from sites import Directory
from sites.errors import SiteRestored
from tests.coordinated import left_over, quantities
from tests.fix_homes import Home, new_site
from tests.linked_table import link, run_everywhere

MakeHome = Callable[[str], Home]


def change(sites: Directory, quantity: int) -> None:
    with synchronous.begin(sites["jfk"]) as connection:
        connection.execute(text(f"UPDATE orders SET qty = {quantity} WHERE id = 1"))


@pytest.mark.parametrize("restored", ["hq", "jfk"])
def test_a_rolled_back_copy_of_files_is_noticed(
    make_home: MakeHome, restored: str
) -> None:
    """By every number that it has it is what it was; its sessions were ended."""
    homes = {name: make_home(name) for name in ("hq", "jfk")}
    databases = {name: f"{name}_{restored}_back" for name in homes}
    sites = Directory(
        {name: new_site(home, name, databases[name]) for name, home in homes.items()}
    )
    link(sites, "orders", "id int PRIMARY KEY, qty int", synchronous=True)
    run_everywhere(sites, "INSERT INTO orders VALUES (1, 1)")
    change(sites, 2)
    copy = homes[restored].copy_files()
    sites.close()
    change(sites, 3)
    homes[restored].put_files_back(copy)

    sites.close()
    with pytest.raises(SiteRestored, match=f"Site {restored} is older"):
        change(sites, 4)

    assert quantities(sites[restored])[1] == 2
    other = "jfk" if restored == "hq" else "hq"
    assert quantities(sites[other])[1] == 3
    assert left_over(sites) == {}
    sites.close()
