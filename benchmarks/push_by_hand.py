"""What a push asks of the databases, done by someone who knows what changed.

Known operations per key go by COPY into an unlogged table, and from there set by set
into a table under the same capture. Nothing is compared, recorded or made sure of.
"""

from __future__ import annotations

from sqlalchemy import text

from benchmarks.by_hand import pipe
from benchmarks.setting import COLUMNS, NAMES
from sites import Directory

_OPERATIONS = (
    "COPY (SELECT c.kind, c.id AS changed, b.*"
    " FROM changed c LEFT JOIN bare b ON b.id = c.id) TO STDOUT (FORMAT binary)"
)
_WRITE = (
    "DELETE FROM bare b USING stage s WHERE s.kind = 'D' AND b.id = s.changed",
    "UPDATE bare b SET {} FROM stage s WHERE s.kind = 'U' AND b.id = s.id".format(
        ", ".join(f"{name} = s.{name}" for name in NAMES[1:])
    ),
    "INSERT INTO bare SELECT {} FROM stage s WHERE s.kind = 'I'".format(
        ", ".join(f"s.{name}" for name in NAMES)
    ),
)


def prepare(sites: Directory) -> None:
    """Create the list of operations at the site, and the stage at the master."""
    plain = COLUMNS.replace(" PRIMARY KEY", "")
    with sites["jfk"].begin() as connection:
        connection.execute(text("CREATE TABLE public.changed (kind text, id int)"))
    with sites["hq"].begin() as connection:
        stage = f"CREATE UNLOGGED TABLE public.stage (kind text, changed int, {plain})"
        connection.execute(text(stage))


def push(sites: Directory) -> None:
    """Operations and images out, into the stage, written in one transaction."""
    pipe(sites["jfk"], sites["hq"], _OPERATIONS, _WRITE)
