"""Makes pages of templates, and shows values: escaped, exact, and cut where long."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import escape
from starlette.responses import HTMLResponse

from sites.words import counted, does
from snaptide.units import duration, size, written

if TYPE_CHECKING:
    from snaptide.web.visit import Visit

FOLDER = Path(__file__).parent

#: A value is cut after so many characters.
LONGEST = 8_000
#: In a list, which has many of them, after so many.
LONGEST_IN_LIST = 300

#: Characters that have no shape become those that stand for them,
_CONTROLS: dict[int, int | str] = {
    127: 0x2421,
    **{n: 0x2400 + n for n in range(32) if n not in (9, 10)},
    # and those that turn the ones behind them around become their names.
    **{n: f"<U+{n:04X}>" for n in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))},
}


def render(
    visit: Visit | None, template: str, context: Mapping[str, Any], status: int = 200
) -> HTMLResponse:
    """Make a page; templates find the site that its address names as `site`.

    Parameters:
        visit: None on pages for people who are not logged in.
    """
    site = visit.path.get("site") if visit else None
    page = _templates().get_template(template)
    told = page.render({"visit": visit, "site": site, **context})
    return HTMLResponse(told, status_code=status)


def shown(value: object, longest: int = LONGEST) -> str:
    """A value as text: numbers exact, bytes as hex, and no more than people read."""
    text = written(value, _moment).translate(_CONTROLS)
    if len(text) > longest:
        return f"{text[:longest]}... ({len(text):,} characters)"
    return text


def brief(value: object) -> str:
    """As `shown`, for a cell of a list."""
    return shown(value, LONGEST_IN_LIST)


def within(value: object, room: int) -> str:
    """As `brief`, in so many bytes of a page: it is cut sooner if it is escaped."""
    text, left = brief(value), room
    for place, char in enumerate(text):
        left -= len(escape(char).encode())
        if left < 0:
            return f"{text[:place]}..."
    return text


def age(since: datetime | None, now: datetime | None) -> str:
    """How long ago something was, by a site's own clock."""
    if since is None or now is None:
        return "-"
    return duration(max((now - since).total_seconds(), 0))


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S %Z").strip()


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "shown": shown,
        "brief": brief,
        "within": within,
        "duration": duration,
        "size": size,
        "counted": counted,
        "does": does,
        "in_path": lambda text: quote(str(text), safe=""),
    }
    made.globals["age"] = age
    return made
