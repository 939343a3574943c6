"""Files that describe sites: what they say, and the words for what is wrong in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from snaptide.plan import read
from snaptide.plan.errors import BadSiteFile, UnsetParameter, UnusedParameter
from tests.site_file import FILE, write


def refused(folder: Path, text: str, **values: str) -> str:
    file = write(folder, text)
    with pytest.raises(BadSiteFile) as error:
        read(file, values)
    return error.value.message.replace(str(folder) + "/", "")


def test_parameters_are_literals_in_conditions_and_text_elsewhere(
    tmp_path: Path,
) -> None:
    document = read(write(tmp_path), {"store": "1"}).document
    assert document.site.name == "store1"
    assert document.snapshots["customer"].where == "store_id = '1'"
    assert document.snapshots["rental"].grants == {"clerk": ("SELECT", "INSERT")}


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("1 OR true", "'1 OR true'"),
        ("'; DROP TABLE customer; --", "'''; DROP TABLE customer; --'"),
        ("a\\'b", " E'a\\\\''b'"),
        ("${store}", "'${store}'"),
        ("", "''"),
    ],
)
def test_no_value_becomes_sql(tmp_path: Path, value: str, literal: str) -> None:
    text = FILE.replace('name = "store${store}"', 'name = "store1"')
    document = read(write(tmp_path, text), {"store": value}).document
    assert document.snapshots["customer"].where == f"store_id = {literal}"


@pytest.mark.parametrize(
    "condition",
    [
        "name = '${store}'",
        "name = E'\\\\'${store}'",
        'name = \\"${store}\\"',
        "name = $$ ${store} $$",
        "name = $a$ ${store} $a$",
        "true -- ${store}",
        "/* ${store} */ true",
    ],
)
def test_a_parameter_within_a_string_of_a_condition_is_refused(
    tmp_path: Path, condition: str
) -> None:
    text = FILE.replace("store_id = ${store}", condition)
    said = refused(tmp_path, text, store="1")
    assert said.startswith("store.toml, line 18, snapshots.customer.where: ${store} ")
    assert "leave out the quotes" in said


def test_an_escaped_parameter_is_the_text_itself(tmp_path: Path) -> None:
    text = FILE.replace("'test'", "'$${test}'")
    document = read(write(tmp_path, text), {"store": "1"}).document
    assert document.snapshots["rental"].where == "kind <> '${test}'"


def test_parameters_that_lack_a_value_or_a_use_are_named(tmp_path: Path) -> None:
    file = write(tmp_path)
    with pytest.raises(UnsetParameter, match=r"line 2, site\.name: \$\{store\} has no"):
        read(file)
    with pytest.raises(UnusedParameter, match=r"nothing uses shop; .* are: store\."):
        read(file, {"store": "1", "shop": "2"})


WRONG = {
    "an unknown key": (
        ("where = \"kind <> 'test'\"", 'wheres = "true"'),
        (
            "store.toml, line 13: There is no key "
            "snapshots.rental.wheres. Did you mean where?"
        ),
    ),
    "an unknown section": (
        ("[groups.shop]", "[group.shop]"),
        "store.toml, line 4: There is no key group. Did you mean groups?",
    ),
    "another type": (
        ("updatable = true", 'updatable = "perhaps"'),
        "store.toml, line 9: snapshots.payment.updatable must be true or false.",
    ),
    "no such privilege": (
        ('"insert"', '"drop"'),
        "line 15: snapshots.rental.grants.clerk.1 must be 'SELECT', 'INSERT', ",
    ),
    "a group that is not in the file": (
        ('follow = ["rental"]', 'group = "shops"'),
        (
            "store.toml, line 8, snapshots.payment.group: there is no [groups.shops]; "
            "the groups are: shop."
        ),
    ),
    "a schedule that never runs": (
        ('every = "5m"', 'every = "5 minutes"'),
        "line 38, schedules[1].every: ",
    ),
    "an option that a refresh does not have": (
        ("keep_pending", "keep_panding"),
        (
            "line 35, schedules[1]: There is no option keep_panding. Did you mean "
            "keep_pending?"
        ),
    ),
    "the same schedule twice": (
        ('kind = "purge"', 'kind = "refresh"\nsubject = "shop"'),
        "line 41, schedules[2]: a refresh of shop stands above, too.",
    ),
    "a size that is none": (
        ('size = "10GB"', 'size = "10 barrels"'),
        "line 33, destinations.hq.size: '10 barrels' is not a size",
    ),
    "a name that is none": (
        ("[snapshots.customer]", '[snapshots."a.b.c"]'),
        "'a.b.c' is not a table name",
    ),
    "a snapshot twice": (
        ("[snapshots.customer]", '[snapshots."public.rental"]'),
        'line 17, snapshots."public.rental": rental is the same snapshot.',
    ),
    "a parameter in a name": (
        ("[snapshots.customer]", '[snapshots."${store}"]'),
        "a name of the file cannot have a parameter.",
    ),
    "no TOML": (("[site]", "[site"), "store.toml is not TOML: "),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_refused_with_its_place(tmp_path: Path, case: str) -> None:
    (old, new), said = WRONG[case]
    assert old in FILE
    assert said in refused(tmp_path, FILE.replace(old, new, 1), store="1")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSiteFile, match="cannot be read: No such file"):
        read(tmp_path / "nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff")
    with pytest.raises(BadSiteFile, match="is not TOML"):
        read(tmp_path / "binary.toml")
