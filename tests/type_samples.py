"""Values of every type that PostgreSQL offers, its corners among them.

As text, in the form that the server reads. The first two of a type are not equal
as the type sees it; later ones may be equal to them and yet others.
"""

from __future__ import annotations

#: A number as long as numeric has them in practice, with a fraction as long.
LONG = "-" + "1234567890" * 100 + "." + "0987654321" * 50

SAMPLES: dict[str, tuple[str, ...]] = {
    "aclitem": ("=r/postgres", "postgres=arwdDxt/postgres"),
    "bit": ("1", "0"),
    "bool": ("true", "false"),
    "box": ("(1,1),(0,0)", "(2,2.5),(-1e300,0)"),
    "bpchar": ("a", "b  ", "", "ä  "),
    "bytea": (r"\x00ff5c", r"\x", r"\x0a0d090027225c4e"),
    "char": ("x", "", r"\377"),
    "cid": ("1", "4294967295"),
    "cidr": ("10.0.0.0/8", "::1/128", "2001:db8::/32"),
    "circle": ("<(1,2),3>", "<(0,-0),1e-300>"),
    "date": ("2024-02-29", "4713-01-01 BC", "5874897-12-31", "infinity", "-infinity"),
    "datemultirange": ("{[2024-01-01,2024-02-01)}", "{}", "{(,0044-03-15 BC)}"),
    "daterange": ("[2024-01-01,infinity]", "empty", "(,)", "[-infinity,0044-03-15 BC)"),
    "float4": ("0.1", "3.4028235e+38", "1e-45", "NaN", "Infinity", "-0", "0"),
    "float8": ("0.1", "1.7976931348623157e+308", "5e-324", "NaN", "-Infinity", "-0"),
    "inet": ("10.0.0.1/24", "::ffff:1.2.3.4", "0.0.0.0/0"),
    "int2": ("-32768", "32767"),
    "int4": ("-2147483648", "2147483647"),
    "int4multirange": ("{[1,5),[7,9)}", "{}", "{(,)}"),
    "int4range": ("[1,5)", "empty", "(,3)", "[2147483647,)"),
    "int8": ("-9223372036854775808", "9223372036854775807"),
    "int8multirange": ("{[1,5)}", "{}", "{[9223372036854775807,)}"),
    "int8range": ("[1,5)", "(,)", "[-9223372036854775808,0)"),
    "interval": (
        "1 year -2 mons +3 days -04:05:06.000007",
        "178000000 years",
        "1 mon",
        "30 days",
        "720:00:00",
        "infinity",
        "-infinity",
    ),
    "json": ('{"b":  1, "a": null, "a": 2}', "[]", '"\\u00e4 %s"', "1.0", "1.00"),
    "jsonb": ('{"b": 1, "a": [1.10, null]}', "null", "1.0", "1.00", '{"%s": "\'"}'),
    "jsonpath": ("$.a[*] ? (@ > 1)", "strict $"),
    "line": ("{1,-1,0}", "{0,1,1e300}"),
    "lseg": ("[(0,0),(1,1)]", "[(-0,1e-300),(1,1)]"),
    "macaddr": ("08:00:2b:01:02:03", "ff:ff:ff:ff:ff:ff"),
    "macaddr8": ("08:00:2b:ff:fe:01:02:03", "ff:ff:ff:ff:ff:ff:ff:ff"),
    "money": ("-92233720368547758.08", "92233720368547758.07", "0.01"),
    "name": ("n", "x" * 63, 'quo"te'),
    "numeric": ("1.0", LONG, "NaN", "Infinity", "-Infinity", "1.00", "1e-1000", "0"),
    "nummultirange": ("{[1.0,1.50)}", "{(-Infinity,1)}", "{}"),
    "numrange": ("[1.0,1.50)", "(1,Infinity]", "[1.00,1.5)", "empty"),
    "oid": ("0", "4294967295"),
    "path": ("[(0,0),(1,1)]", "((0,0),(1,1),(2,-0))"),
    "pg_lsn": ("16/B374D848", "FFFFFFFF/FFFFFFFF"),
    "pg_snapshot": ("10:20:10,14,15", "1:1:"),
    "point": ("(0.1,-0)", "(NaN,Infinity)", "(0.1,0)"),
    "polygon": ("((0,0),(1,1),(1,0))", "((5e-324,0))"),
    "refcursor": ("c1", "unnamed portal 1"),
    "regclass": ("pg_class", "pg_type"),
    "regcollation": ('"C"', '"POSIX"'),
    "regconfig": ("simple", "german"),
    "regdictionary": ("simple", "english_stem"),
    "regnamespace": ("pg_catalog", "public"),
    "regoper": ("|/", "||/"),
    "regoperator": ("+(integer,integer)", "!~(text,text)"),
    "regproc": ("now", "gen_random_uuid"),
    "regprocedure": ("abs(integer)", "abs(bigint)"),
    "regrole": ("postgres", "-"),
    "regtype": ("integer", "character varying[]"),
    "text": ("", "naïve 🌊 \\ \t\n%s :x '", "NULL", "\\N", " padded ", "{}"),
    "tid": ("(0,1)", "(4294967295,65535)"),
    "time": ("23:59:59.999999", "00:00:00", "24:00:00"),
    "timestamp": (
        "2024-02-29 23:59:59.999999",
        "4713-01-01 00:00:00 BC",
        "294276-12-31 23:59:59.999999",
        "infinity",
        "-infinity",
    ),
    "timestamptz": (
        "2024-02-29 23:59:59.999999+13",
        "4713-01-02 00:00:00+00 BC",
        "294276-12-31 23:59:59.999999+00",
        "infinity",
        "-infinity",
    ),
    "timetz": ("23:59:59.999999+15:59:59", "24:00:00-15:59:59", "00:00:00+00"),
    "tsmultirange": ("{[2024-01-01,2024-01-02)}", "{(,0044-03-15 BC)}", "{}"),
    "tsquery": ("'a':*A & !( 'b' <2> 'c' )", "'it''s'"),
    "tsrange": ("[2024-01-01,infinity]", "(,0044-03-15 12:00 BC]", "empty"),
    "tstzmultirange": ("{[2024-01-01 00:00+00,infinity]}", "{}"),
    "tstzrange": ("[2024-01-01 00:00+13,)", "(-infinity,2024-01-01 00:00+00)"),
    "tsvector": ("'a':1A 'b c':2,3C", "", "'it''s':16383"),
    "txid_snapshot": ("10:20:10,14,15", "1:1:"),
    "uuid": (
        "00000000-0000-0000-0000-00000000000f",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ),
    "varbit": ("10101", "", "1" * 99),
    "varchar": ("", "ünï", "a'b"),
    "xid": ("3", "4294967295"),
    "xid8": ("3", "18446744073709551615"),
    "xml": ("<a b='c'>&amp;</a>", "text"),
    # Of the extension that comes with the embedded server.
    "halfvec": ("[1,-0.5]", "[65504]"),
    "sparsevec": ("{1:1,3:2.5}/5", "{}/1"),
    "vector": ("[1,-0,3.4e38]", "[0.1]"),
}

#: How a type is called where its name is not the whole of it.
SPELT = {
    "bit": "bit(1)",
    "char": '"char"',
    "bpchar": "character(3)",
    "varchar": "character varying(9)",
}


def samples(name: str, version: int) -> tuple[str, ...]:
    """The values of a type that a server of this version reads."""
    known = SAMPLES[name]
    if name == "interval" and version < 17:
        return tuple(v for v in known if "infinity" not in v)
    return known


def array(values: tuple[str, ...], at: int, delimiter: str) -> str:
    """An array of some values: with NULLs, of two dimensions, with odd bounds."""
    one, two = (_element(values[(at + n) % len(values)]) for n in (0, 1))
    shape = (
        "{one}|NULL|{two}",
        "[0:1]={{two}|{one}}",
        "[-1:0][3:4]={{{one}|NULL}|{{two}|{one}}}",
        "",
    )[at % 4]
    shape = shape if "=" in shape else "{" + shape + "}"
    shape = shape.replace("|", delimiter)
    return shape.replace("{one}", one).replace("{two}", two)


def _element(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
