"""What public names take, return and raise can be imported from where they are."""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator
from typing import Any

from docs.generator.errors import error_classes
from snaptide_imports import PACKAGES

FACES = {package: importlib.import_module(package) for package in PACKAGES}

#: Each public name of the top-level packages.
PUBLIC = {
    f"{package}.{name}": getattr(face, name)
    for package, face in FACES.items()
    for name in getattr(face, "__all__", ())
}


def callables(value: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """A public function, or the public methods of a public class."""
    if not inspect.isclass(value):
        yield "", value
        return
    for name, found in vars(value).items():
        function = getattr(found, "__func__", getattr(found, "fget", found))
        if inspect.isfunction(function) and not name.startswith("_"):
            yield f".{name}", function


def types_in(hint: Any) -> Iterator[type]:
    """The classes that a type hint names."""
    if inspect.isclass(hint) and not typing.get_args(hint):
        yield hint
    for argument in typing.get_args(hint):
        for one in argument if isinstance(argument, list) else [argument]:
            yield from types_in(one)


def hints(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The type hints of a public name, with what has them."""
    if inspect.isclass(value):
        for field, hint in typing.get_type_hints(value).items():
            if not field.startswith("_"):
                yield f"{name}.{field}", hint
    for method, function in callables(value):
        for hint in typing.get_type_hints(function).values():
            yield name + method, hint


def is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in PACKAGES


def test_types_in_signatures_are_public() -> None:
    public = set(map(id, PUBLIC.values()))
    hidden = {
        f"{where} names {found.__module__}.{found.__qualname__}"
        for name, value in PUBLIC.items()
        for where, hint in hints(name, value)
        for found in types_in(hint)
        if is_ours(found) and id(found) not in public
    }
    assert PUBLIC
    assert hidden == set()


def raised(documented: Any) -> set[str]:
    """The errors that a docstring lists."""
    _, _, listed = (inspect.getdoc(documented) or "").partition("Raises:\n")
    listed = textwrap.dedent(listed.partition("\n\n")[0])
    entries = re.sub(r"\n +", " ", listed).splitlines()
    heads = (entry.partition(":")[0] for entry in entries)
    return {name for head in heads for name in re.findall(r"[\w.]*[A-Z]\w+", head)}


def test_errors_that_are_raised_are_public() -> None:
    public = {one.rpartition(".")[2] for one in PUBLIC} | set(dir(builtins))
    hidden = {
        f"{name}{method} raises {error}"
        for name, value in PUBLIC.items()
        for method, function in callables(value)
        for error in raised(function)
        if error not in public and not error.startswith("sqlalchemy.exc.")
    }
    assert PUBLIC
    assert hidden == set()


def test_errors_of_the_packages_are_public() -> None:
    """The program's own are for its command line."""
    public = set(PUBLIC.values())
    of_packages = [
        e for e in error_classes() if not e.__module__.startswith("snaptide")
    ]
    assert [error for error in of_packages if error not in public] == []


def test_verb_has_its_name_where_its_module_has_it_too() -> None:
    """The import system binds a module to its name, over the verb."""
    for name, value in PUBLIC.items():
        if inspect.isfunction(value):
            importlib.import_module(value.__module__)
            assert getattr(FACES[name.partition(".")[0]], value.__name__) is value
