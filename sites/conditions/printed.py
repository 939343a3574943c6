"""Expressions as PostgreSQL prints them, as tokens.

It prints in one regular form: fully in parentheses, keywords in upper case, and names
that are not quoted in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from sites.names import plain

#: A quoted name, a string, a number or word, or one other character.
_TOKEN = re.compile(
    r"""\s*("(?:[^"]|"")*"|E'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|[\w$]+|[^\s\w])"""
)
_NAME = re.compile(r'[^\W\d]|"')


class Printed:
    """One printed expression, by the numbers of its tokens."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans = [match.span(1) for match in _TOKEN.finditer(text)]
        self.tokens = [text[start:end] for start, end in self.spans]
        self.ends = self._closed()

    def _closed(self) -> dict[int, int]:
        """For each opening parenthesis, bracket or CASE the place after its end."""
        ends, open_ = {}, []
        for n, word in enumerate(self.tokens):
            if word in ("(", "[", "CASE"):
                open_.append(n)
            elif word in (")", "]", "END"):
                ends[open_.pop()] = n + 1
        return ends

    def gap(self, at: int) -> bool:
        """Whether space stands before a token."""
        return self.spans[at - 1][1] < self.spans[at][0]

    def slice(self, start: int, end: int) -> str:
        """The text of a stretch of tokens, on one line."""
        return self.joined(range(start, end))

    def joined(self, places: Iterable[int]) -> str:
        """The text of the tokens at some places, on one line."""
        return "".join(
            (" " if n and self.gap(at) else "") + self.tokens[at]
            for n, at in enumerate(places)
        )

    def is_subselect(self, at: int) -> bool:
        """Whether a subquery in parentheses begins here."""
        return self.tokens[at : at + 2] == ["(", "SELECT"]

    def top(self, start: int, end: int) -> Iterator[int]:
        """The places that no parenthesis within the stretch encloses."""
        n = start
        while n < end:
            yield n
            n = self.ends.get(n, n + 1)

    def is_table(self, at: int) -> bool:
        """Whether a name with a column after it stands here."""
        return (
            self.tokens[at + 1 : at + 2] == ["."]
            and _NAME.match(self.tokens[at]) is not None
            # Behind a colon stands a type with its schema.
            and self.tokens[at - 1] not in (".", ":")
        )


def conjuncts(text: str) -> list[str]:
    """The parts of a printed condition that must all hold."""
    printed = Printed(text)
    start, end = _unwrapped(printed, 0, len(printed.tokens))
    cuts = [n for n in printed.top(start, end) if printed.tokens[n] == "AND"]
    pieces = zip([start, *(n + 1 for n in cuts)], [*cuts, end], strict=True)
    return [printed.slice(*_unwrapped(printed, *piece)) for piece in pieces]


def _unwrapped(printed: Printed, start: int, end: int) -> tuple[int, int]:
    """A stretch without the parentheses around it."""
    while printed.ends.get(start) == end and printed.tokens[start] == "(":
        start, end = start + 1, end - 1
    return start, end


def divided(words: Sequence[str], at: str) -> list[list[str]]:
    """The tokens between those that equal `at`."""
    items: list[list[str]] = [[]]
    for word in words:
        if word == at:
            items.append([])
        else:
            items[-1].append(word)
    return items


def column_of(words: Sequence[str]) -> tuple[str, str, bool] | None:
    """A column, if the tokens are one: its table or '', its name, whether as text."""
    as_text = words[-4:] == [")", ":", ":", "text"] and words[0] == "("
    named = words[1:-4] if as_text else words
    if len(named) == 1:
        return "", plain(named[0]), as_text
    if len(named) == 3 and named[1] == ".":
        return plain(named[0]), plain(named[2]), as_text
    return None
