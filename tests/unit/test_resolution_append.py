"""Append site name and append sequence."""

from __future__ import annotations

import pytest

from masters.apply.resolve import Explicit
from masters.errors import InvalidParameter, MissingParameter
from masters.resolution import Decision, Kind, Resolution
from masters.resolution.appended import AppendSequence, AppendSiteName
from masters.rules import Rule
from tests.unit.conflicts import resolve, uniqueness_conflict


def by_site(
    code: object, origin: str = "houston.world", length: int | None = None
) -> Resolution:
    method = AppendSiteName.build({"column": "code", "length": length}, ["code"])
    return method(uniqueness_conflict(new={"code": code}, origin=origin))


def by_sequence(
    code: object, number: int | None = 42, length: int | None = None
) -> Resolution:
    method = AppendSequence.build({"column": "code", "length": length}, ["code"])
    return method(uniqueness_conflict(new={"code": code}, number=number))


def test_acceptance_a14_11_a_duplicate_x_from_houston_world_becomes_xhouston():
    rule = Rule(
        kind=Kind.UNIQUENESS,
        constraint="products_code_key",
        sequence_no=1,
        method="append_site_name",
        parameters={"column": "code"},
    )
    result = resolve([uniqueness_conflict(origin="HOUSTON.WORLD")], [rule])
    assert result.columns == {"code": Explicit(value="XHOUSTON")}
    assert not result.ignored
    # The site keeps its X: nobody is told of the change before the next refresh.
    assert not result.origin_changed


@pytest.mark.parametrize(
    ("origin", "value"),
    [("houston", "Xhouston"), ("a.b.c", "Xa"), ("", "X"), (".world", "X")],
)
def test_the_name_ends_at_its_first_period(origin, value):
    assert by_site("X", origin).values == {"code": value}


def test_a_name_that_does_not_fit_is_undecided():
    assert by_site("X", length=8).values == {"code": "Xhouston"}
    answer = by_site("X", length=7)
    assert answer.decision is Decision.UNDECIDED
    assert "longer than 7" in answer.reason


def test_the_number_of_the_master_is_appended():
    answer = by_sequence("X")
    assert answer.decision is Decision.SITE_WINS
    assert answer.values == {"code": "X42"}


@pytest.mark.parametrize(
    ("code", "length", "value"),
    [
        ("ABCDEF", 6, "ABCD42"),
        ("ABCDEF", 7, "ABCDE42"),
        ("ABCDEF", 8, "ABCDEF42"),
        ("AB", 2, "42"),
        ("", 2, "42"),
        ("äöü", 3, "ä42"),
    ],
)
def test_the_text_is_cut_so_that_the_number_fits(code, length, value):
    assert by_sequence(code, length=length).values == {"code": value}


def test_a_number_that_alone_is_too_long_is_undecided():
    answer = by_sequence("AB", number=123, length=2)
    assert answer.decision is Decision.UNDECIDED
    assert "alone is longer than 2" in answer.reason


def test_without_a_number_it_is_undecided():
    assert by_sequence("X", number=None).decision is Decision.UNDECIDED


@pytest.mark.parametrize("ask", [by_site, by_sequence])
def test_the_padding_of_character_is_no_text(ask):
    assert ask("X         ", length=10).values["code"] in ("Xhouston", "X42")


@pytest.mark.parametrize("ask", [by_site, by_sequence])
@pytest.mark.parametrize("code", [None, 7, b"X", ["X"]])
def test_null_and_what_is_no_text_are_undecided(ask, code):
    assert ask(code).decision is Decision.UNDECIDED


every_append = pytest.mark.parametrize("method", [AppendSiteName, AppendSequence])


@every_append
@pytest.mark.parametrize("length", [0, -1, "10", 10.0, True, []])
def test_a_length_is_a_number_of_characters(method, length):
    with pytest.raises(InvalidParameter, match="length"):
        method.build({"column": "code", "length": length}, ["code"])


@every_append
def test_the_column_is_one_of_the_constraint(method):
    with pytest.raises(InvalidParameter, match="name"):
        method.build({"column": "name"}, ["code"])
    with pytest.raises(MissingParameter):
        method.build({}, ["code"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("report.odt", "report (jfk).odt"),
        ("a.b/report", "a.b/report (jfk)"),
        ("a/.profile", "a/.profile (jfk)"),
        ("a/b.tar.gz", "a/b.tar (jfk).gz"),
    ],
)
def test_what_is_appended_to_the_path_of_a_file_comes_before_its_suffix(path, value):
    parameters = {"column": "path", "of_file": True}
    method = AppendSiteName.build(parameters, ["path"])
    conflict = uniqueness_conflict(new={"path": path}, origin="jfk.world")
    assert method(conflict).values == {"path": value}


def test_a_number_for_a_file_fits_the_column_too():
    parameters = {"column": "path", "of_file": True, "length": 12}
    method = AppendSequence.build(parameters, ["path"])
    conflict = uniqueness_conflict(new={"path": "reports.odt"}, number=42)
    assert method(conflict).values == {"path": "rep (42).odt"}


@every_append
@pytest.mark.parametrize(
    ("stem", "suffix"),
    [("n" * 251, ".odt"), ("ä" * 125, ".odt"), ("a." + "n" * 253, "")],
)
def test_the_name_of_a_file_stays_one_that_file_systems_can_have(method, stem, suffix):
    made = method.build({"column": "path", "of_file": True}, ["path"])
    new = {"path": f"{'d' * 255}/{stem}{suffix}"}
    conflict = uniqueness_conflict(new=new, origin="jfk", number=7)
    [path] = made(conflict).values.values()
    name = path.rpartition("/")[2]
    end = f" ({'jfk' if method is AppendSiteName else 7}){suffix}"
    assert name.endswith(end)
    assert stem.startswith(name.removesuffix(end))
    assert len(name.encode()) in (254, 255)


def test_a_path_that_cannot_be_shorter_is_not_cut():
    method = AppendSiteName.build({"column": "path", "of_file": True}, ["path"])
    new = {"path": "d" * 2600 + "/a"}
    made = method(uniqueness_conflict(new=new, origin="jfk"))
    assert made.values == {"path": "d" * 2600 + "/a (jfk)"}


def test_of_file_is_true_or_false():
    with pytest.raises(InvalidParameter):
        AppendSiteName.build({"column": "path", "of_file": "yes"}, ["path"])
