"""Values of 50 MB, at the site and at the master, through everything.

SNAPTIDE_VALUE_MB sets another size.
"""

import os

import pytest

import deferred
import snapshots
from sites import Directory
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

SIZE = int(os.environ.get("SNAPTIDE_VALUE_MB", "50")) * 2**20
#: Bytes that COPY escapes among them.
SET = (
    "UPDATE public.t SET b = decode(repeat('{0}0a5c0900', {1}), 'hex'),"
    " c = repeat(E'{0}\\t\\\\\\n.', {1})"
)
SUMS = (
    "SELECT id, octet_length(b), md5(b), octet_length(c), md5(c) FROM public.t"
    " ORDER BY id"
)


def test_values_of_50_megabytes(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, b bytea, c text)",
        "INSERT INTO public.t VALUES (1)",
        SET.format("01", SIZE // 5),
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    assert run(jfk, SUMS) == run(hq, SUMS)
    assert run(hq, "SELECT octet_length(b) FROM public.t") == [(SIZE // 5 * 5,)]

    run(jfk, SET.format("02", SIZE // 5))
    assert deferred.push(jfk).errors == 0
    assert run(jfk, SUMS) == run(hq, SUMS)

    # By executors: a row of so many bytes is never compared by this process.
    run(hq, SET.format("03", SIZE // 5))
    assert refresh(jfk, "t")["t"].updated == 1
    assert run(jfk, SUMS) == run(hq, SUMS)
