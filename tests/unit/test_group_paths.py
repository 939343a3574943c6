"""Paths of a group: shapes, what is wrong with them, and their pictures."""

from xml.etree import ElementTree as xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groups import picture
from groups.errors import BadPaths
from groups.paths import (
    Path,
    chain,
    check,
    drawn,
    full_mesh,
    joined,
    star,
    tree,
    without,
)

THREE = ("a", "b", "c")


def of(source: str, *ways: str) -> list[Path]:
    """Paths of one source, written as `a-b`."""
    ends = (way.split("-") for way in ways)
    return [Path(source=source, local=one, target=other) for one, other in ends]


def test_shapes():
    assert full_mesh(THREE) == tuple(
        of("a", "a-b", "a-c") + of("b", "b-a", "b-c") + of("c", "c-a", "c-b")
    )
    assert set(star(THREE, "b")) == {
        *of("a", "a-b", "b-c"),
        *of("b", "b-a", "b-c"),
        *of("c", "c-b", "b-a"),
    }
    assert set(chain(("c", "a", "b"))) == set(tree(THREE, [("a", "b"), ("c", "a")]))


@given(st.lists(st.integers(min_value=0, max_value=9), min_size=1, max_size=9))
def test_every_tree_leads_everywhere_once(parents: list[int]):
    masters = [f"m{n}" for n in range(len(parents) + 1)]
    edges = [(f"m{n + 1}", f"m{p % (n + 1)}") for n, p in enumerate(parents)]
    paths = tree(masters, edges)
    check(masters, paths)
    assert len(paths) == len(masters) * (len(masters) - 1)


@given(
    st.lists(st.integers(min_value=-1, max_value=9), min_size=1, max_size=7),
    st.data(),
)
def test_masters_join_and_leave_and_all_others_are_reached(
    joins: list[int], data: st.DataObject
):
    masters, paths = ["m0"], full_mesh(["m0"])
    for n, at in enumerate(joins, 1):
        via = None if at < 0 else masters[at % len(masters)]
        paths = joined(paths, masters, f"m{n}", via)
        masters.append(f"m{n}")
        check(masters, paths)
    while len(masters) > 1:
        gone = data.draw(st.sampled_from(masters))
        paths = without(paths, gone)
        masters.remove(gone)
        check(masters, paths)


def test_who_leaves_is_stepped_over():
    """Others keep their ways; its neighbour sends on what it did, not the source."""
    chained = of("a", "a-b", "b-c", "c-d", "c-e", "b-f")
    assert without(chained, "c") == (*of("a", "a-b", "b-d", "b-e", "b-f"),)
    assert without(chained, "b") == (*of("a", "a-c", "c-d", "c-e", "a-f"),)
    assert without(chained, "d") == (*of("a", "a-b", "b-c", "c-e", "b-f"),)
    assert without(chained, "a") == ()


def test_each_source_steps_over_it_on_its_own_way():
    paths = chain(("a", "b", "c", "d"))
    assert set(without(paths, "b")) == set(chain(("a", "c", "d")))


@pytest.mark.parametrize(
    ("paths", "fault"),
    [
        (of("a", "a-b"), "Changes of a do not reach c"),
        (of("a", "a-b", "a-c", "b-c"), "Changes of a reach c twice, from a and b"),
        (of("a", "a-b", "b-c", "c-a"), "in a circle: c sends them back to a"),
        (of("a", "b-c", "c-b"), "in a circle, and do not reach b, c"),
        (of("a", "a-b", "b-x"), "Not a master of the group: x"),
    ],
)
def test_missing_doubled_and_cyclic_paths_are_errors(paths: list[Path], fault: str):
    others = [path for path in full_mesh(THREE) if path.source != "a"]
    with pytest.raises(BadPaths, match=fault):
        check(THREE, [*paths, *others])


def test_tree_with_a_circle_is_an_error():
    with pytest.raises(BadPaths, match="a-b, b-c, c-a form a circle"):
        tree(THREE, [("a", "b"), ("b", "c"), ("c", "a")])
    with pytest.raises(BadPaths, match="x is not a master"):
        tree(THREE, [("a", "x")])
    with pytest.raises(BadPaths, match="do not reach c"):
        tree(THREE, [("a", "b")])


def test_text_shows_trees_and_what_is_wrong():
    paths = of("a", "a-b", "b-c", "a-d")
    assert drawn("a", "abcd", paths) == "a\n├─> b\n│   └─> c\n└─> d"
    wrong = of("a", "a-b", "b-a")
    assert drawn("a", THREE, wrong) == "a\n└─> b\n    └─> a (again)\nnot reached: c"
    assert picture.text(THREE, chain(THREE)).count("\n") == 8


def test_svg_has_a_box_for_each_master_and_an_arrow_for_each_way():
    drawing = xml.fromstring(picture.svg("flights", THREE, star(THREE, "b")))
    space = "{http://www.w3.org/2000/svg}"
    assert [one.text for one in drawing.iter(f"{space}text")] == list(THREE)
    arrows = [one[0].text for one in drawing.findall(f"{space}path")]
    assert arrows == [
        "a to b: changes of a",
        "b to c: changes of a, b",
        "b to a: changes of b, c",
        "c to b: changes of c",
    ]
