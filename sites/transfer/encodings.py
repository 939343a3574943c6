"""Handling texts with characters that the encoding of a database does not have."""

from __future__ import annotations

import codecs
import json
from typing import Any

from sqlalchemy import JSON, Connection, Dialect, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB

from sites.sessions.exchange import raw

#: Python's names of encodings that have another name in PostgreSQL.
_NAMES = {
    "SQL_ASCII": "utf-8",  # stores any bytes unchanged
    "UNICODE": "utf-8",
    "UHC": "cp949",
    "SJIS": "cp932",
    "ALT": "cp866",
    "WIN": "cp1251",
    "LATIN5": "iso8859-9",
    "LATIN6": "iso8859-10",
    "LATIN7": "iso8859-13",
    "LATIN8": "iso8859-14",
    "LATIN9": "iso8859-15",
    "LATIN10": "iso8859-16",
    "EUC_JIS_2004": "euc_jis_2004",
    "EUC_CN": "gb2312",
}

#: A codec whose characters every encoding has, and one that has all characters.
LEAST, EVERYTHING = "ascii", "utf-8"


def codec(connection: Connection) -> str:
    """Python's codec for the encoding of a database; `LEAST` if Python has none."""
    name = raw(connection).info.parameter_status("server_encoding") or "UTF8"
    known = _NAMES.get(name, name.replace("WIN", "cp"))
    try:
        return codecs.lookup(known).name
    except LookupError:
        return LEAST


def holds(text: str, by: str) -> bool:
    """Whether a codec can encode all characters of a text."""
    if text.isascii():
        return True
    try:
        text.encode(by)
    except UnicodeEncodeError:
        return False
    return True


def escaped(connection: Connection, text: str) -> str:
    r"""A text that a database can hold: other characters are written as \u0141."""
    return text.encode(by := codec(connection), "backslashreplace").decode(by)


#: The name in the JSON object that replaces a text which the database cannot hold.
_ESCAPED = "escaped"
#: How such an object begins in the text of JSON; no other value contains this.
MARK = f'{{"{_ESCAPED}":'


def stored(value: Any, by: str) -> Any:
    """JSON in which each text that the database cannot hold is an object instead.

    `read` restores the texts without loss.

    Parameters:
        value: lists, objects and texts.
        by: the codec of the database's encoding.
    """
    if isinstance(value, str) and not holds(value, by):
        return {_ESCAPED: json.dumps(value)}
    if isinstance(value, list):
        return [stored(one, by) for one in value]
    if isinstance(value, dict):
        return {name: stored(one, by) for name, one in value.items()}
    return value


def read(value: Any) -> Any:
    """The value from which `stored` made this JSON."""
    if isinstance(value, list):
        return [read(one) for one in value]
    if isinstance(value, dict):
        if value.keys() == {_ESCAPED}:
            return json.loads(value[_ESCAPED])
        return {name: read(one) for name, one in value.items()}
    return value


class AllText(TypeDecorator[Any]):
    """JSON with texts that the database may be unable to hold: see `stored`."""

    impl = JSON
    cache_ok = True

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        """Compare with the same types as plain JSON."""
        return self.impl_instance.coerce_compared_value(op, value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Restore the texts."""
        return read(value)


class AllTextBinary(AllText):
    """The same for JSONB."""

    impl = JSONB
    cache_ok = True
