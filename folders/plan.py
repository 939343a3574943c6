"""What a sync has to do: directory and folder, each compared with what was in step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from folders.entries import Entry
from folders.paths import ALIKE, folded, why_not
from folders.scan import Found, Scan, is_below, parents
from folders.state import Known

_FOLDER = Found(kind="folder")


@dataclass(slots=True)
class Plan:
    """What has to be done, by path."""

    #: files to be written to the directory
    fetch: dict[str, Entry] = field(default_factory=dict)
    #: of these, what was found in their places
    replaced: dict[str, Found] = field(default_factory=dict)
    #: files to be removed from the directory
    delete: dict[str, Found] = field(default_factory=dict)
    #: files of the directory to be renamed, by their new path
    rename: dict[str, tuple[str, Found, Entry]] = field(default_factory=dict)
    #: files to be added to the folder, with the entry that they replace
    send: dict[str, tuple[Found, Entry | None]] = field(default_factory=dict)
    #: entries to lose their path
    remove: dict[str, Entry] = field(default_factory=dict)
    #: entries to be moved, by their new path
    move: dict[str, tuple[Entry, Found]] = field(default_factory=dict)
    #: files that both sides have changed
    conflict: dict[str, tuple[Found, Entry]] = field(default_factory=dict)
    #: files that differ only in their time or in whether they can be executed: here,
    #: the directory's is to be changed; there, the entry
    touch_here: dict[str, tuple[Found, Entry]] = field(default_factory=dict)
    touch_there: dict[str, tuple[Found, Entry]] = field(default_factory=dict)
    #: what is in step
    equal: dict[str, tuple[Found, Entry]] = field(default_factory=dict)
    #: what neither side has any more
    gone: set[str] = field(default_factory=set)
    #: what is left alone, and why
    left: dict[str, str] = field(default_factory=dict)
    #: folders that stay, even if they are empty
    folders: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Sides:
    """One path: as it was in step, here in the directory, and there in the folder."""

    was: Known | None
    here: Found | None
    there: Entry | None


def plan(known: Mapping[str, Known], seen: Scan, there: Mapping[str, Entry]) -> Plan:
    """Decide for each path.

    A change beats a removal. What both sides have changed differently is a conflict.

    Parameters:
        known: what was in step.
        seen: the directory.
        there: the folder's entries.
    """
    kept = (path for path, entry in there.items() if entry.kind == "folder")
    made = Plan(left={**seen.left, **_refused(there)}, folders=frozenset(kept))
    here = dict(seen.found)
    for path in seen.folders:
        entry = there.get(path)
        if entry is not None and entry.kind == "file":
            if _content(entry) != _content(known.get(path)):
                made.left[path] = "it is a folder here, and a file there"
        elif entry is not None or path in known:
            here[path] = _FOLDER
    _leave_alike(made, known, here, there)
    for path in sorted({*known, *here, *there}):
        if not is_below(path, made.left):
            sides = _Sides(known.get(path), here.get(path), there.get(path))
            _decide(made, path, sides)
    _find_renamed(made)
    _leave_below_files(made, there)
    return made


def _refused(there: Mapping[str, Entry]) -> dict[str, str]:
    """What the folder has, and no directory should."""
    reasons = ((path, why_not(path)) for path in there)
    return {path: reason for path, reason in reasons if reason}


def _leave_alike(
    made: Plan,
    known: Mapping[str, Known],
    here: Mapping[str, Found],
    there: Mapping[str, Entry],
) -> None:
    """Leave alone names that a directory on some systems could not have side by side.

    A name that was removed on either side since the last sync does not count.
    """
    staying = [
        path
        for path in {*here, *there}
        if path not in known or (path in here and path in there)
    ]
    alike = Counter(map(folded, staying))
    for path in staying:
        if alike[folded(path)] > 1:
            made.left.setdefault(path, ALIKE)


def _decide(made: Plan, path: str, sides: _Sides) -> None:
    was, here, there = map(_content, (sides.was, sides.here, sides.there))
    if here == there:
        _decide_look(made, path, sides)
    elif here == was or (here is None and there != was):
        if sides.there is not None:
            made.fetch[path] = sides.there
            if sides.here is not None:
                made.replaced[path] = sides.here
        elif sides.here is not None:
            made.delete[path] = sides.here
    elif there == was or there is None:
        if sides.here is not None:
            made.send[path] = (sides.here, sides.there)
        elif sides.there is not None:
            made.remove[path] = sides.there
    elif sides.here is not None and sides.there is not None:
        made.conflict[path] = (sides.here, sides.there)


def _content(one: Known | Found | Entry | None) -> tuple[str, str] | None:
    if one is None:
        return None
    sha256 = one.sha256.hex() if isinstance(one.sha256, bytes) else one.sha256
    return one.kind, sha256 or ""


def _decide_look(made: Plan, path: str, sides: _Sides) -> None:
    here, there, was = sides.here, sides.there, sides.was
    if here is None or there is None:
        made.gone.add(path)
    elif here.kind == "folder":
        made.equal[path] = (here, there)
    elif was is None or (there.time_us, there.executable) != (
        was.entry_us,
        was.executable,
    ):
        made.touch_here[path] = (here, there)
    elif (here.mtime_ns, here.executable) != (was.mtime_ns, was.executable):
        made.touch_there[path] = (here, there)
    else:
        made.equal[path] = (here, there)


def _find_renamed(made: Plan) -> None:
    """Make one renaming of a removal and an addition of the same content.

    So the content is not carried again.
    """
    old = defaultdict(list)
    for path, entry in made.remove.items():
        old[_content(entry)].append(path)
    for path, (found, replaced) in [*made.send.items()]:
        if replaced is None and found.kind == "file" and old[_content(found)]:
            del made.send[path]
            entry = made.remove.pop(old[_content(found)].pop(0))
            made.move[path] = (entry, found)
    was = defaultdict(list)
    for path, found in made.delete.items():
        was[_content(found)].append(path)
    for path, entry in [*made.fetch.items()]:
        if path not in made.replaced and entry.kind == "file" and was[_content(entry)]:
            before = was[_content(entry)].pop(0)
            del made.fetch[path]
            made.rename[path] = (before, made.delete.pop(before), entry)


def _leave_below_files(made: Plan, there: Mapping[str, Entry]) -> None:
    """Leave alone what is a folder on one side, and would be a file on the other."""
    going = {*made.remove, *(entry.path for entry, _ in made.move.values())}
    staying = {path: entry for path, entry in there.items() if path not in going}
    files = {path for path, entry in staying.items() if entry.kind == "file"}
    folders = {above for path in staying for above in parents(path)}
    for path in [*made.send, *made.move]:
        if not files.isdisjoint(parents(path)):
            made.left[path] = "it is in a folder here that is a file there"
        elif path in folders and not _is_folder(made, path):
            made.left[path] = "it is a file here, and a folder there"
        else:
            continue
        made.send.pop(path, None)
        if moved := made.move.pop(path, None):
            made.left[moved[0].path] = f"it is {path} here"


def _is_folder(made: Plan, path: str) -> bool:
    return path in made.send and made.send[path][0].kind == "folder"
