"""Says what is wrong with values, in the same words wherever a user wrote them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


def mistakes(model: type[BaseModel], error: ValidationError, kind: str) -> list[str]:
    """One sentence for each mistake, with what is allowed; none shows a value.

    Parameters:
        kind: what a field of the model is called: setting, option.
    """
    found = error.errors(include_input=False, include_url=False)
    return [_sentence(model, one, kind) for one in found]


def _sentence(model: type[BaseModel], found: ErrorDetails, kind: str) -> str:
    place = [str(part) for part in found["loc"]]
    shown = ".".join(place)
    if found["type"] == "extra_forbidden":
        known = _model_at(model, place[:-1]).model_fields
        near = get_close_matches(place[-1], known, n=1)
        others = f"The {kind}s here are: {', '.join(known)}."
        rest = f"Did you mean {near[0]}?" if near else others
        return f"There is no {kind} {shown}. {rest}"
    if found["type"] == "missing":
        return f"{shown} is missing."
    if found["type"].startswith("bool_"):
        return f"{shown} must be true or false."
    said = found["msg"].removeprefix("Value error, ")
    # A list in a file is a tuple to us alone.
    wanted = said.removeprefix("Input should ").replace("valid tuple", "valid list")
    return f"{shown}: {said}." if wanted == said else f"{shown} must {wanted}."


def _model_at(model: type[BaseModel], place: list[str]) -> type[BaseModel]:
    """The model that a place leads to; the name of a site is no field on the way."""
    for part in place:
        if part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = map(_model_in, getattr(annotation, "__args__", ()))
    return next(filter(None, inner), None)
