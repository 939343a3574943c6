"""What a refresh asks of the databases, done by someone who knows what changed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text

from benchmarks.setting import COLUMNS, NAMES, ROW
from sites import Directory, Site
from sites.sessions.exchange import raw
from sites.transfer.transport import hand_on

_IMAGES = (
    "COPY (SELECT c.id AS changed, b.* FROM changed c LEFT JOIN bare b USING (id))"
    " TO STDOUT (FORMAT binary)"
)
_STAGE = "COPY stage FROM STDIN (FORMAT binary)"
_MERGE = (
    "DELETE FROM bare b USING stage s WHERE b.id = s.changed AND s.id IS NULL",
    "UPDATE bare b SET {} FROM stage s WHERE b.id = s.id".format(
        ", ".join(f"{name} = s.{name}" for name in NAMES[1:])
    ),
    "INSERT INTO bare SELECT {} FROM stage s WHERE s.id IS NOT NULL"
    " AND NOT EXISTS (SELECT FROM bare b WHERE b.id = s.id)".format(
        ", ".join(f"s.{name}" for name in NAMES)
    ),
)


def prepare(sites: Directory) -> None:
    """Create the list of what changed at the master, and the stage at the site."""
    prepare_changes(sites)
    plain = COLUMNS.replace(" PRIMARY KEY", "")
    with sites["jfk"].begin() as connection:
        connection.execute(
            text(f"CREATE UNLOGGED TABLE public.stage (changed int, {plain})")
        )


def prepare_changes(sites: Directory) -> None:
    """Create the list of what changed at the master."""
    with sites["hq"].begin() as connection:
        connection.execute(text("CREATE TABLE public.changed (id int)"))


def change(master: Site, table: str, rows: int, changed: int, seed: int) -> None:
    """Change rows all over a table: of ten, one goes, one is new, eight differ.

    Their keys are left in `public.changed`.
    """
    step = rows // changed
    scattered = f"id % {step} = {seed % step}"
    newest = f"(SELECT max(id) FROM public.{table})"
    statements = (
        "TRUNCATE public.changed",
        _listed(
            f"DELETE FROM public.{table}"
            f" WHERE {scattered} AND id / {step} % 10 = {seed % 10}"
        ),
        _listed(f"UPDATE public.{table} SET qty = qty + 1 WHERE {scattered}"),
        _listed(
            f"INSERT INTO public.{table} SELECT {ROW}"
            f" FROM generate_series({newest} + 1, {newest} + {changed // 10}) g"
        ),
        "ANALYZE public.changed",
    )
    with master.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def _listed(statement: str) -> str:
    return (
        f"WITH touched AS ({statement} RETURNING id)"
        " INSERT INTO public.changed SELECT id FROM touched"
    )


def refresh(sites: Directory) -> None:
    """Keys and images out, into the stage, merged as sets in one transaction."""
    pipe(sites["hq"], sites["jfk"], _IMAGES, _MERGE)


def pipe(source: Site, target: Site, out: str, write: Sequence[str]) -> None:
    """COPY from one database into the stage of the other, and write from there.

    Parameters:
        out: a COPY to STDOUT in binary.
        write: statements at the target, in the same transaction.
    """
    with source.begin() as there, target.begin() as here:
        for connection in (there, here):
            connection.execute(text("SET LOCAL search_path = public"))
        here.execute(text("TRUNCATE stage"))
        with (
            raw(there).cursor() as reader,
            raw(here).cursor() as writer,
            reader.copy(out) as blocks,
            writer.copy(_STAGE) as sink,
        ):
            hand_on(blocks, sink.write)
        here.execute(text("ANALYZE stage"))
        for statement in write:
            here.execute(text(statement))
