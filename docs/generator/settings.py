"""The page of all settings, from the models that read them."""

from __future__ import annotations

import re
from enum import EnumType
from typing import Any, get_args

from pydantic import BaseModel

from docs.generator.markdown import comments, prose, table
from snaptide.settings import Settings

_INTRO = """\
# Settings

This page lists all that `snaptide.toml` can hold. Snaptide reads the file that
`--config` names, else the one that the environment variable `SNAPTIDE_CONFIG` names,
else `snaptide.toml` in the current folder.

```toml
[sites.hq]
url = "postgresql://snaptide@db.example.com/hq"
password_file = "secrets/hq"

[sites.jfk]
url = "postgresql://snaptide:${JFK_PASSWORD}@localhost/jfk"

[broker]
url = "redis://localhost:6379/0"
```

- `${NAME}` in a value is replaced by an environment variable; `$${NAME}` stands for
  the text itself. A variable that is not set is an error.
- A variable like `SNAPTIDE_BROKER__URL` goes before what the file says: prefix,
  section, two underscores, setting.
- Passwords never appear in messages, logs or reports.
- A setting that does not exist is an error; it names the nearest one that does.
- A site's name consists of letters, digits, `_` and `-`.
"""


def page() -> str:
    """Every section of `snaptide.toml`, from the models that read it."""
    parts = [_INTRO.strip()]
    for field in Settings.model_fields.values():
        model = _model(field.annotation)
        title, _, about = prose(model.__doc__).partition(": ")
        parts += [
            f"## {title.strip('`')}",
            f"{about[0].upper()}{about[1:]}",
            fields(model, "setting"),
        ]
    return "\n\n".join(parts)


def setting_names() -> list[str]:
    """All settings, as section.name."""
    return [
        f"{section}.{name}"
        for section, field in Settings.model_fields.items()
        for name in _model(field.annotation).model_fields
    ]


def fields(model: type[BaseModel], kind: str) -> str:
    """The table of a model's fields: settings, or options."""
    said = comments(model)
    rows = [
        (f"`{name}`", _type(field), _default(field), said[name])
        for name, field in model.model_fields.items()
    ]
    return table([kind, "type", "default", "meaning"], rows)


def _type(field: Any) -> str:
    shown = str(field.annotation)
    values = get_args(field.annotation) if "Literal" in shown else ()
    if isinstance(field.annotation, EnumType):
        values = tuple(field.annotation)
    if values:
        return ", ".join(f"`{value}`" for value in values)
    for kind, word in {
        "dict": "table",
        "list": "list",
        "bool": "true or false",
        "int": "number",
        "float": "number",
        "Path": "path",
    }.items():
        if re.search(rf"\b{kind}\b", shown):
            return word
    return "text"


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ({}, []):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _model(annotation: Any) -> type[BaseModel]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(
        _model(a)
        for a in reversed(get_args(annotation))
        if a is not type(None) and not isinstance(a, str)
    )
