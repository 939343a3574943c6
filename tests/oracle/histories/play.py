"""The worlds of histories: of rows, of columns, of lenses and of masters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sites import Directory
from tests.oracle.histories import group, peers, shapes, tables
from tests.oracle.histories.acts import Pen
from tests.oracle.histories.clashes import EVERYBODY, ClashWorld
from tests.oracle.histories.columns import ColumnsWorld
from tests.oracle.histories.group import GroupWorld
from tests.oracle.histories.lenses import LensWorld
from tests.oracle.histories.peers import PeersWorld
from tests.oracle.histories.rows import RowsWorld
from tests.oracle.histories.world import SITES, World
from tests.oracle.runner.played import Game, Setting


def _make(setting: Setting) -> tuple[str, World | GroupWorld | PeersWorld | ClashWorld]:
    kind = _kind(setting.number)
    return kind, _MAKERS[kind](setting)


def _kind(number: int) -> str:
    """Of six worlds one is of columns, and one of masters, with rules or without.

    Of twelve, one is of lenses, and one of clashes.
    """
    if number % 12 == 4:
        return "clashes"
    if number % 12 == 7:
        return "peers"
    if number % 12 == 10:
        return "lenses"
    if number % 6 == 3:
        return "columns"
    return "group" if number % 6 == 5 else "rows"


def _pens(setting: Setting, tricks: Sequence[str] = ()) -> dict[int, Pen]:
    return {n: Pen(n, one, tricks=tricks) for n, one in setting.histories.items()}


def _sites(setting: Setting, hq: str = "UTF8") -> Directory:
    """A master, with the encoding that it has, and the sites."""
    encodings = {"hq": hq} | dict.fromkeys(SITES, "UTF8")
    return setting.stack.enter_context(setting.ground.sites(encodings))


def _rows(setting: Setting) -> World:
    schema = tables.draw(setting.chance)
    setting.story.tell(f"{schema}")
    tricks = [
        *(["long"] if schema.width else ()),
        *(["odd"] if schema.encoding != "UTF8" else ()),
        *(["refused"] if "refuses" in schema.triggers else ()),
        *(["refused here"] if "refuses" in schema.at_sites else ()),
    ]
    sites, pens = _sites(setting, schema.encoding), _pens(setting, tricks)
    return RowsWorld(sites, setting.chance, pens, setting.story, schema=schema)


def _columns(setting: Setting) -> World:
    return ColumnsWorld(_sites(setting), setting.chance, _pens(setting), setting.story)


def _lenses(setting: Setting) -> World:
    return LensWorld(_sites(setting), setting.chance, _pens(setting), setting.story)


def _group(setting: Setting) -> GroupWorld:
    encodings = dict.fromkeys((*group.MASTERS, *group.SITES), "UTF8")
    databases = setting.ground.sites(encodings, with_clock=group.SITES)
    return GroupWorld(
        setting.stack.enter_context(databases),
        setting.chance,
        _pens(setting),
        setting.story,
        setting.ground.clock,
    )


def _peers(setting: Setting) -> PeersWorld:
    databases = setting.ground.sites(dict.fromkeys(peers.MASTERS, "UTF8"))
    sites = setting.stack.enter_context(databases)
    return PeersWorld(sites, setting.chance, _pens(setting), setting.story)


def _clashes(setting: Setting) -> ClashWorld:
    databases = setting.ground.sites(dict.fromkeys(EVERYBODY, "UTF8"))
    return ClashWorld(
        setting.stack.enter_context(databases),
        setting.ground,
        setting.chance,
        setting.histories,
        setting.story,
    )


_MAKERS: dict[
    str, Callable[[Setting], World | GroupWorld | PeersWorld | ClashWorld]
] = {
    "rows": _rows,
    "columns": _columns,
    "lenses": _lenses,
    "group": _group,
    "peers": _peers,
    "clashes": _clashes,
}
GAME = Game(name="histories", make=_make, shapes=shapes.ALL, each=100)
