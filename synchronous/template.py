"""Statements of our own that are run again and again with other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from sqlalchemy import ClauseElement
from sqlalchemy.dialects.postgresql.psycopg import dialect

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

_DIALECT = dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A statement with values for $1, $2 and so on."""

    text: str
    values: Sequence[str | None] = ()
    #: whether its session keeps it prepared
    kept: bool = True


#: Ends a transaction.
COMMIT = Bound(text="COMMIT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A statement whose values are still to come."""

    text: str
    #: the parameters that $1, $2 and so on stand for
    names: tuple[str, ...]
    #: the values that are always the same
    constants: Mapping[str, str]

    @classmethod
    def of(cls, statement: ClauseElement) -> Template:
        """Write a statement out; parameters without a value wait for `bind`."""
        compiled = cast(
            "SQLCompiler",
            statement.compile(
                dialect=_DIALECT, compile_kwargs={"render_postcompile": True}
            ),
        )
        return cls(
            text=str(compiled),
            names=tuple(compiled.positiontup or ()),
            constants={n: v for n, v in compiled.params.items() if v is not None},
        )

    def bind(self, values: Mapping[str, str | None]) -> Bound:
        """Give the parameters their values."""
        known = {**self.constants, **values}
        return Bound(text=self.text, values=[known[name] for name in self.names])
