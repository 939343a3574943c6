"""Which characters a database can hold: not each encoding has all of them."""

from __future__ import annotations

import codecs
import json
from typing import Any

from sqlalchemy import JSON, Connection, Dialect, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB

from sites.transport import raw

#: Python's names where it does not know the database's.
_NAMES = {
    "SQL_ASCII": "utf-8",  # takes any bytes for what they are
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

#: What each of them has, and what has all.
LEAST, EVERYTHING = "ascii", "utf-8"


def codec(connection: Connection) -> str:
    """Python's codec for the encoding of a database; the least if it has none."""
    name = raw(connection).info.parameter_status("server_encoding") or "UTF8"
    known = _NAMES.get(name, name.replace("WIN", "cp"))
    try:
        return codecs.lookup(known).name
    except LookupError:
        return LEAST


def holds(text: str, by: str) -> bool:
    """Whether all characters of a text are in the encoding of a codec."""
    if text.isascii():
        return True
    try:
        text.encode(by)
    except UnicodeEncodeError:
        return False
    return True


def escaped(connection: Connection, text: str) -> str:
    r"""A text that a database can hold: other characters as \u0141 or so."""
    return text.encode(by := codec(connection), "backslashreplace").decode(by)


#: Instead of a text that the database cannot hold, an object with its JSON.
_ESCAPED = "escaped"
#: As it stands in the text of such JSON, and in that of no value.
MARK = f'{{"{_ESCAPED}":'


def stored(value: Any, by: str) -> Any:
    """What a database can keep as JSON of lists, objects and texts; nothing is lost.

    Parameters:
        by: the codec of its encoding.
    """
    if isinstance(value, str) and not holds(value, by):
        return {_ESCAPED: json.dumps(value)}
    if isinstance(value, list):
        return [stored(one, by) for one in value]
    if isinstance(value, dict):
        return {name: stored(one, by) for name, one in value.items()}
    return value


def read(value: Any) -> Any:
    """What `stored` made of it, as it was."""
    if isinstance(value, list):
        return [read(one) for one in value]
    if isinstance(value, dict):
        if value.keys() == {_ESCAPED}:
            return json.loads(value[_ESCAPED])
        return {name: read(one) for name, one in value.items()}
    return value


class AllText(TypeDecorator[Any]):
    """JSON whose texts a database's encoding may lack characters of: see `stored`."""

    impl = JSON
    cache_ok = True

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        """What it is compared with is what JSON is compared with."""
        return self.impl_instance.coerce_compared_value(op, value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Read it as it was."""
        return read(value)


class AllTextBinary(AllText):
    """The same of JSONB."""

    impl = JSONB
    cache_ok = True
