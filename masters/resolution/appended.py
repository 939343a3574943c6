"""Two methods that make a text unique: a number or a name is appended to it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.errors import InvalidParameter
from masters.resolution import file_names
from masters.resolution.conflict import Conflict, Decision, Kind, Resolution, undecided
from masters.resolution.method import check_names, deciding_column, null_side, value_of
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Append:
    """The common base of both: a text column of a constraint, and its length."""

    name: ClassVar[str]
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UNIQUENESS})

    column: str
    length: int | None
    of_file: bool = False

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        optional = ["length", "of_file"]
        check_names(cls.name, parameters, required=["column"], optional=optional)
        length = parameters.get("length")
        if length is not None and (type(length) is not int or length < 1):
            raise InvalidParameter(
                f"{cls.name}: length must be a number of characters, not {length!r}.",
                method=cls.name,
                parameter="length",
                value=length,
            )
        of_file = parameters.get("of_file", False)
        if not isinstance(of_file, bool):
            raise InvalidParameter(
                f"{cls.name}: of_file must be true or false, not {of_file!r}.",
                method=cls.name,
                parameter="of_file",
                value=of_file,
            )
        column = deciding_column(cls.name, parameters["column"], columns)
        return cls(column=column, length=length, of_file=of_file)

    def reads(self) -> frozenset[str]:
        return frozenset({self.column})

    def takes(self) -> Mapping[str, Takes]:
        return {self.column: Takes.TEXT}

    def __call__(self, conflict: Conflict) -> Resolution:
        if reason := null_side(conflict, self.column, "new"):
            return undecided(reason)
        value = value_of(conflict.new, self.column)
        if not isinstance(value, str):
            return undecided(f"{self.column} holds no text")
        # Without the padding of character(n).
        text = value.rstrip(" ") if len(value) == self.length else value
        if not self.of_file:
            return self._append(text, "", conflict)
        return self._append(*file_names.divide(text), conflict)

    @abstractmethod
    def _append(self, text: str, suffix: str, conflict: Conflict) -> Resolution:
        """Decide with something put between text and suffix, or say why not."""

    def _joined(self, text: str, appended: str, suffix: str) -> str:
        if self.of_file:
            return file_names.append(text, suffix, appended)
        return text + appended + suffix

    def _becomes(self, value: str) -> Resolution:
        """Write the site's row with this value in the column."""
        return Resolution(
            decision=Decision.SITE_WINS,
            values={self.column: value},
            reason=f"{self.column} becomes {value!r}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSequence(_Append):
    """Oracle, APPEND SEQUENCE: a number of the master is appended to the text.

    The text is cut so that both fit the column; a number that alone is too long,
    NULL, and a column that is no text decide nothing. The number comes with the
    conflict (`Conflict.number`): the apply draws it, so that the method keeps no
    state and the record shows the number.

    Parameters:
        column: a text column of the constraint.
        length: how many characters the column holds; without limit if not given.
        of_file: the text is the path of a file: report.odt becomes report (X).odt.
            A name that would be longer than 255 bytes is cut before that.
    """

    name: ClassVar[str] = "append_sequence"

    def _append(self, text: str, suffix: str, conflict: Conflict) -> Resolution:
        if conflict.number is None:
            return undecided("no number was drawn for this conflict")
        number = str(conflict.number)
        if self.length is None:
            return self._becomes(self._joined(text, number, suffix))
        alone = len(self._joined("", number, suffix))
        if alone > self.length:
            return undecided(
                f"{self.column}: the number {number} alone is longer than {self.length}"
            )
        text = text[: self.length - alone]
        return self._becomes(self._joined(text, number, suffix))


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSiteName(_Append):
    """Oracle, APPEND SITE NAME: the name of the origin is appended to the text.

    Only the part before the first period of the name is used: X from houston.world
    becomes Xhouston. A text that does not fit the column, NULL, and a column that is no
    text decide nothing. The site itself keeps X until it is refreshed.

    Parameters:
        column: a text column of the constraint.
        length: how many characters the column holds; without limit if not given.
        of_file: the text is the path of a file: report.odt becomes report (X).odt.
            A name that would be longer than 255 bytes is cut before that.
    """

    name: ClassVar[str] = "append_site_name"

    def _append(self, text: str, suffix: str, conflict: Conflict) -> Resolution:
        value = self._joined(text, conflict.origin.partition(".")[0], suffix)
        if self.length is not None and len(value) > self.length:
            return undecided(f"{self.column}: {value!r} is longer than {self.length}")
        return self._becomes(value)
