"""A log that is altered or dropped while a publication of its table is being made."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from sqlalchemy import text

import masters
from masters.errors import TablePublished
from sites import Directory
from sites.tables import locks
from tests.fix_sites import log
from tests.fix_worker import eventually
from tests.granted import publish_sales, stores
from tests.let_go import WAITS
from tests.linked_table import run


@pytest.mark.parametrize(
    "change",
    [
        partial(masters.alter_snapshot_log, table="sale", partition_columns=[]),
        partial(masters.drop_snapshot_log, table="sale"),
    ],
    ids=["altered", "dropped"],
)
def test_refused_once_the_publication_is_there(
    sites: Directory, change: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both wait for as long as the test keeps them waiting, and begin only once.
    monkeypatch.setattr(locks, "briefly", partial(locks.briefly, moment="1min"))
    hq = sites["hq"]
    stores(hq)
    # The first publication locks tables of ours, too, and all others wait there.
    run(hq, "CREATE TABLE public.other (id int PRIMARY KEY)")
    log(hq, "other")
    masters.create_publication(hq, "others", ["other"])
    with ThreadPoolExecutor(2) as pool:
        with hq.transaction() as reader:
            # The last table that is written: those that are published are locked then.
            reader.execute(text("LOCK TABLE snaptide.site_ddl IN SHARE MODE"))
            made = pool.submit(publish_sales, hq)
            eventually(lambda: run(hq, WAITS))
            changed = pool.submit(change, hq)
            both = f"SELECT count(*) = 2 FROM ({WAITS}) AS waiting"
            eventually(lambda: run(hq, both) == [(True,)])
        made.result()
        with pytest.raises(TablePublished):
            changed.result()
    [found] = [one for one in masters.list_snapshot_logs(hq) if one.table == "sale"]
    assert "store_id" in found.partition_columns
