"""The statement by which a side sums up its rows."""

import sqlalchemy as sa
from sqlalchemy import func, select

from sites import Site
from sites.transfer import arrow
from snapshots.differences import buckets
from snapshots.differences.images import Layout
from tests.linked_table import run, scalar

#: Declared as what prints values is: the planner may call it more than once.
_SHOWN = """
CREATE FUNCTION public.shown(n int) RETURNS text STABLE LANGUAGE plpgsql AS $$
BEGIN PERFORM nextval('public.calls'); RETURN n::text; END $$
"""


def test_each_value_is_printed_once(hq: Site) -> None:
    run(hq, "CREATE SEQUENCE public.calls", _SHOWN)
    series = func.generate_series(1, 100).table_valued("n", name="series")
    row = series.render_derived().c.n
    image = select(row.label("c1"), func.public.shown(row).label("c2"))
    layout = Layout(
        schema=arrow.schema(["integer", "text"]), key=["c1"], columns=["c1", "c2"]
    )
    with hq.connect() as connection:
        found = connection.execute(buckets.sums(layout, [image], 8)).all()
    assert sorted(number for number, *_ in found) == [*range(8)]
    assert sum(count for _, count, *_ in found) == 100
    assert scalar(hq, "SELECT last_value FROM public.calls") == 100


def test_sums_tell_swapped_values_and_capitals_apart(hq: Site) -> None:
    def of(*rows: tuple[int, str]) -> set[tuple[int, ...]]:
        columns = sa.column("c1", sa.Integer), sa.column("c2", sa.Text)
        image = select(*sa.values(*columns, name="given").data(rows).c)
        layout = Layout(
            schema=arrow.schema(["integer", "text"]), key=["c1"], columns=["c1", "c2"]
        )
        with hq.connect() as connection:
            return {
                tuple(r) for r in connection.execute(buckets.sums(layout, [image], 1))
            }

    one = of((1, "a"), (2, "b"))
    assert one == of((2, "b"), (1, "a"))
    assert len({*one, *of((1, "b"), (2, "a")), *of((1, "A"), (2, "b"))}) == 3
