"""Foreign keys of a master that are not one parent, one child and a primary key."""

import pytest

import masters
import snapshots
from sites import Directory, Site, SnaptideError
from snapshots.definitions.errors import NoSuchReference
from snaptide import doctor
from tests.fix_sites import log
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")


def group_of(sites: Directory, *tables: str, updatable: bool = False) -> None:
    log(sites["hq"], *tables)
    for name in tables:
        snapshots.create(
            sites["jfk"], name, master="hq", group="g", updatable=updatable
        )
    snapshots.refresh(sites["jfk"], "g")


def pull(site: Site) -> int:
    """Refresh, and say how many rows were held back."""
    report = snapshots.refresh(site, "g", push_deferred_rpc=False)
    return sum(one.held_back for one in report.snapshots)


def assert_equal(sites: Directory, *tables: str) -> None:
    for name in tables:
        query = f"SELECT * FROM public.{name} t ORDER BY t"
        assert run(sites["jfk"], query) == run(sites["hq"], query)


@pytest.mark.parametrize("action", ["CASCADE", "RESTRICT", "NO ACTION", "SET NULL"])
def test_rows_of_a_cycle_go(sites: Directory, action: str) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.a (id int PRIMARY KEY, b int)",
        "CREATE TABLE public.b (id int PRIMARY KEY,"
        f" a int REFERENCES public.a ON DELETE {action})",
        f"ALTER TABLE public.a ADD FOREIGN KEY (b) REFERENCES public.b"
        f" ON DELETE {action}",
        "INSERT INTO public.a SELECT generate_series(1, 3)",
        "INSERT INTO public.b SELECT i, i FROM generate_series(1, 3) i",
        "UPDATE public.a SET b = id",
    )
    group_of(sites, "a", "b")
    run(
        hq,
        "UPDATE public.a SET b = NULL WHERE id = 1",
        "DELETE FROM public.b WHERE id = 1",
        "DELETE FROM public.a WHERE id = 1",
    )
    assert pull(jfk) == 0
    assert_equal(sites, "a", "b")
    assert pull(jfk) == 0


@pytest.mark.parametrize("action", ["CASCADE", "RESTRICT"])
def test_rows_below_a_cycle_go_first(sites: Directory, action: str) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.department (id int PRIMARY KEY, boss int)",
        "CREATE TABLE public.employee (id int PRIMARY KEY,"
        " department int REFERENCES public.department)",
        "ALTER TABLE public.department"
        " ADD FOREIGN KEY (boss) REFERENCES public.employee",
        "CREATE TABLE public.badge (id int PRIMARY KEY,"
        f" employee int REFERENCES public.employee ON DELETE {action})",
        "INSERT INTO public.department VALUES (1)",
        "INSERT INTO public.employee VALUES (1, 1), (2, 1), (3, 1)",
        "INSERT INTO public.badge VALUES (1, 1), (2, 2), (3, 3)",
    )
    group_of(sites, "department", "employee", "badge")
    run(
        hq,
        "DELETE FROM public.badge WHERE id = 1",
        "DELETE FROM public.employee WHERE id = 1",
    )
    assert pull(jfk) == 0
    assert_equal(sites, "department", "employee", "badge")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            [
                "UPDATE public.p SET code = 'x' WHERE id = 1",
                "UPDATE public.p SET code = 'A' WHERE id = 2",
                "UPDATE public.p SET code = 'B' WHERE id = 1",
            ],
            [(1, "B"), (2, "A")],
        ),
        (
            [
                "DELETE FROM public.p WHERE id = 1",
                "INSERT INTO public.p VALUES (3, 'A')",
            ],
            [(2, "B"), (3, "A")],
        ),
    ],
    ids=["swapped", "replaced"],
)
@pytest.mark.parametrize("action", ["NO ACTION", "CASCADE"])
def test_value_that_children_refer_to_passes_on(
    sites: Directory, changes: list[str], expected: list[tuple[int, str]], action: str
) -> None:
    """The children themselves are as they were, so that no log is about them."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int PRIMARY KEY, code text UNIQUE)",
        "CREATE TABLE public.c (id int PRIMARY KEY,"
        f" p text REFERENCES public.p (code) ON DELETE {action})",
        "INSERT INTO public.p VALUES (1, 'A'), (2, 'B')",
        "INSERT INTO public.c VALUES (1, 'A')",
    )
    group_of(sites, "p", "c", updatable=True)
    off = "UPDATE public.c SET p = NULL"
    run(hq, off, *changes, "UPDATE public.c SET p = 'A'")
    assert pull(jfk) == 0
    assert run(jfk, "SELECT * FROM public.p ORDER BY id") == expected
    assert run(jfk, "SELECT * FROM public.c") == [(1, "A")]
    assert pull(jfk) == 0


def test_key_that_the_site_cannot_have(sites: Directory) -> None:
    """The parent had no unique value to refer to when its snapshot was created."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int PRIMARY KEY, code text)",
        "CREATE TABLE public.c (id int PRIMARY KEY, p text)",
        "INSERT INTO public.p VALUES (1, 'A')",
        "INSERT INTO public.c VALUES (1, 'A')",
    )
    group_of(sites, "p", "c")
    run(
        hq,
        "ALTER TABLE public.p ADD UNIQUE (code)",
        "ALTER TABLE public.c ADD FOREIGN KEY (p) REFERENCES public.p (code)",
        "INSERT INTO public.c VALUES (2, 'A')",
    )
    position = "SELECT position::text FROM snaptide.registered_snapshot"
    before = run(hq, position)
    assert pull(jfk) == 0
    assert_equal(sites, "p", "c")
    assert run(hq, position) != before


@pytest.mark.parametrize("how", ["NOT VALID", "NOT ENFORCED"])
def test_key_that_does_not_hold_for_all_rows_is_not_taken_over(
    sites: Directory, pg_version: int, how: str
) -> None:
    if how == "NOT ENFORCED" and pg_version < 18:
        pytest.skip("PostgreSQL 18 is the first to have it.")
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int PRIMARY KEY)",
        "CREATE TABLE public.c (id int PRIMARY KEY, p int, v text)",
        "INSERT INTO public.p VALUES (1)",
        "INSERT INTO public.c VALUES (1, 1, 'a'), (2, 5, 'a')",
        f"ALTER TABLE public.c ADD FOREIGN KEY (p) REFERENCES public.p {how}",
    )
    group_of(sites, "p", "c")
    run(hq, "UPDATE public.c SET v = 'b'")
    assert pull(jfk) == 0
    assert_equal(sites, "p", "c")


def test_key_of_a_period_is_not_taken_over(sites: Directory, pg_version: int) -> None:
    if pg_version < 18:
        pytest.skip("PostgreSQL 18 is the first to have it.")
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int4range, during daterange,"
        " PRIMARY KEY (id, during WITHOUT OVERLAPS))",
        "CREATE TABLE public.c (id int PRIMARY KEY, p int4range, during daterange,"
        " FOREIGN KEY (p, PERIOD during) REFERENCES public.p (id, PERIOD during))",
        "INSERT INTO public.p VALUES ('[1,1]', '[2026-01-01,2027-01-01)')",
    )
    group_of(sites, "p", "c")
    run(hq, "INSERT INTO public.c VALUES (1, '[1,1]', '[2026-02-01,2026-03-01)')")
    assert pull(jfk) == 0
    assert_equal(sites, "p", "c")


def test_parents_of_a_period_are_not_followed(
    sites: Directory, pg_version: int
) -> None:
    """A row within a parent's period has not the parent's values."""
    if pg_version < 18:
        pytest.skip("PostgreSQL 18 is the first to have it.")
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int4range, during daterange,"
        " PRIMARY KEY (id, during WITHOUT OVERLAPS))",
        "CREATE TABLE public.c (id int PRIMARY KEY, p int4range, during daterange,"
        " FOREIGN KEY (p, PERIOD during) REFERENCES public.p (id, PERIOD during))",
    )
    group_of(sites, "p")
    log(hq, "c")
    with pytest.raises(NoSuchReference, match=r"c_p_during_fkey of c .* PERIOD"):
        snapshots.create(jfk, "c", master="hq", group="g", follow=["p"])
    with pytest.raises(SnaptideError, match="PERIOD"):
        masters.create_publication(hq, "all", ["c"], where={"c": "follows p"})


@pytest.mark.parametrize("how", ["NOT VALID", "NO INHERIT"])
def test_null_that_is_older_than_its_constraint(
    sites: Directory, pg_version: int, how: str
) -> None:
    """Or in a child that does not inherit it."""
    if pg_version < 18:
        pytest.skip("PostgreSQL 18 is the first to have it.")
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v int)",
        "CREATE TABLE public.child (PRIMARY KEY (id)) INHERITS (public.t)",
        "INSERT INTO public.child VALUES (1, NULL)",
        f"ALTER TABLE public.t ADD CONSTRAINT given NOT NULL v {how}",
    )
    group_of(sites, "t", updatable=True)
    assert_equal(sites, "t")
    run(jfk, "UPDATE public.t SET v = 5")
    snapshots.refresh(jfk, "g")
    assert run(hq, "TABLE public.t") == [(1, 5)]
    assert [one for one in doctor.examine(jfk) if "NULL" in one.what] == []


@pytest.mark.usefixtures("spark")
def test_null_of_a_column_that_a_snapshot_gets_later(
    sites: Directory, pg_version: int
) -> None:
    """Its constant default does not mean that all rows have a value."""
    if pg_version < 18:
        pytest.skip("PostgreSQL 18 is the first to have it.")
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v int)",
        "INSERT INTO public.t VALUES (1, NULL)",
        "ALTER TABLE public.t ALTER v SET DEFAULT 0",
        "ALTER TABLE public.t ADD CONSTRAINT given NOT NULL v NOT VALID",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", group="g", columns=["id"])
    snapshots.refresh(jfk, "g")
    snapshots.alter_columns(jfk, "t", add=["v"])
    snapshots.refresh(jfk, "g")
    assert_equal(sites, "t")


def test_columns_that_a_delete_sets_to_null(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (tenant int, id int, PRIMARY KEY (tenant, id))",
        "CREATE TABLE public.c (id int PRIMARY KEY, tenant int, p int, FOREIGN KEY"
        " (tenant, p) REFERENCES public.p ON DELETE SET NULL (p))",
        "INSERT INTO public.p VALUES (1, 1)",
        "INSERT INTO public.c VALUES (1, 1, 1)",
    )
    group_of(sites, "p", "c", updatable=True)
    run(jfk, "DELETE FROM public.p")
    snapshots.refresh(jfk, "g")
    assert run(hq, "TABLE public.c") == [(1, 1, None)]
    assert_equal(sites, "p", "c")


@pytest.mark.parametrize("own", ["child", "parent"])
def test_table_of_the_sites_own_refuses_one_row(sites: Directory, own: str) -> None:
    """By a key that can be put off: as one that cannot, it stops no other row."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int PRIMARY KEY, v int)",
        "INSERT INTO public.p VALUES (1, 0), (2, 0)",
    )
    group_of(sites, "p")
    base = 'public."snap$_p"'
    if own == "child":
        run(
            jfk,
            f"CREATE TABLE public.own (id int REFERENCES {base} DEFERRABLE)",
            "INSERT INTO public.own VALUES (1)",
        )
    else:
        run(
            jfk,
            "CREATE TABLE public.own (id int PRIMARY KEY)",
            "INSERT INTO public.own VALUES (1), (2)",
            f"ALTER TABLE {base} ADD FOREIGN KEY (id) REFERENCES public.own DEFERRABLE",
        )
    run(
        hq,
        "DELETE FROM public.p WHERE id = 1",
        "INSERT INTO public.p VALUES (3, 0)",
        "UPDATE public.p SET v = 1",
    )
    assert pull(jfk) == 1
    assert (2, 1) in run(jfk, "SELECT * FROM public.p")
    undo = "DELETE FROM public.own" if own == "child" else "INSERT INTO own VALUES (3)"
    run(jfk, undo)
    assert pull(jfk) == 0
    assert_equal(sites, "p")


def test_table_of_the_sites_own_has_a_key_of_the_same_name(sites: Directory) -> None:
    """PostgreSQL puts off all keys of a name; a cycle needs that."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.a (id int PRIMARY KEY, b int)",
        "CREATE TABLE public.b (id int PRIMARY KEY,"
        " a int CONSTRAINT fk REFERENCES public.a)",
        "ALTER TABLE public.a ADD CONSTRAINT fk FOREIGN KEY (b)"
        " REFERENCES public.b DEFERRABLE",
        "INSERT INTO public.a SELECT generate_series(1, 3)",
        "INSERT INTO public.b SELECT i, i FROM generate_series(1, 3) i",
    )
    group_of(sites, "a", "b")
    own = 'id int CONSTRAINT fk REFERENCES public."snap$_a" DEFERRABLE'
    run(jfk, f"CREATE TABLE public.own ({own})")
    run(
        hq,
        "UPDATE public.a SET b = id",
        "INSERT INTO public.a VALUES (4, NULL)",
        "INSERT INTO public.b VALUES (4, 4)",
        "UPDATE public.a SET b = 4 WHERE id = 4",
    )
    assert pull(jfk) == 0
    assert_equal(sites, "a", "b")


def test_table_of_the_sites_own_refers_to_a_value_that_passes(sites: Directory) -> None:
    """Its key is put off, and finds the row that has the value then."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int PRIMARY KEY, code text UNIQUE)",
        "INSERT INTO public.p VALUES (1, 'A'), (2, 'B')",
    )
    group_of(sites, "p")
    own = 'code text REFERENCES public."snap$_p" (code) DEFERRABLE'
    run(jfk, f"CREATE TABLE public.own ({own})", "INSERT INTO public.own VALUES ('A')")
    run(
        hq,
        "UPDATE public.p SET code = 'C' WHERE id = 1",
        "UPDATE public.p SET code = 'A' WHERE id = 2",
    )
    assert pull(jfk) == 0
    assert_equal(sites, "p")
