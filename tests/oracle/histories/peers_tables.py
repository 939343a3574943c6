"""The tables of masters, what their users write, their DDL, and rules of some."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from masters import rules
from sites import Site
from tests.oracle.histories.acts import Pen, Statement, delete, insert, update

TABLES = ("parent", "child", "part", "person")
ACTIONS = ("CASCADE", "SET NULL", "NO ACTION", "RESTRICT")
#: What a trigger of users does for changes of other masters.
TRIGGERS = ("", "writes at one master", "writes at all masters")
SWAP = " ".join(
    f"ALTER TABLE parent RENAME {old} TO {new};"
    for old, new in (("note", "c"), ("more", "note"), ("c", "more"))
)
AWAY = "ALTER TABLE part DETACH PARTITION part_low"
BACK = "ALTER TABLE part ATTACH PARTITION part_low FOR VALUES FROM (0) TO (1000000)"
#: Another table takes the place of the partition.
OTHER = (
    "CREATE TABLE other (LIKE part INCLUDING DEFAULTS INCLUDING CONSTRAINTS);"
    " INSERT INTO other SELECT id, h, uid, note FROM part_low;"
    " DROP TABLE part_low; ALTER TABLE other RENAME TO part_low"
)
#: The partition of some masters has its columns in another order.
PARTS = (
    "CREATE TABLE part_low PARTITION OF part FOR VALUES FROM (0) TO (1000000)",
    (
        "CREATE TABLE part_low (note text, uid text NOT NULL, gone int,"
        " h int NOT NULL, id int NOT NULL);"
        f" ALTER TABLE part_low DROP gone; {BACK}"
    ),
)


#: Methods for conflicts, which do not converge; none is a rule that is not there. What
#: stands here often happens often.
UPDATES = ("", "discard", "overwrite")
DELETES = ("", "cascade", "cascade", "ignore", "restore", "restore")
UNIQUES = ("", "append_site_name", "append_site_name", "discard")


def rule(chance: Random, master: Site) -> str:
    """Give a master rules; says which.

    None is about a column that changes its name.
    """
    update, delete_, unique = map(chance.choice, (UPDATES, DELETES, UNIQUES))
    for table in TABLES:
        if update and table != "parent":
            rules.set_column_group(master, table, "note", ["note"])
            rules.add_update_resolution(master, table, "note", update)
        if delete_:
            rules.add_delete_resolution(master, table, delete_)
    if unique:
        given = {"column": "code"} if unique == "append_site_name" else None
        rules.add_unique_resolution(
            master, "parent", "parent_code_key", unique, parameters=given
        )
    return ", ".join(filter(None, (update, delete_, unique)))


def draw(chance: Random) -> tuple[str, str, str]:
    """The actions of two foreign keys, and what a trigger does."""
    action, own = (chance.choice(("CASCADE", *ACTIONS)) for _ in range(2))
    return action, own, chance.choice(TRIGGERS)


def ddl(action: str, own: str, trigger: str, part: str) -> Iterator[str]:
    """The tables of a master.

    Parameters:
        action, own: on delete, of references to another table and to its own.
        trigger: of `TRIGGERS`; it writes another table than it is on.
        part: of `PARTS`.
    """
    common = "id int PRIMARY KEY, h int NOT NULL, uid text NOT NULL, note text"
    yield f"CREATE TABLE parent ({common}, code text UNIQUE, more text)"
    yield (
        f"CREATE TABLE child ({common}, parent_id int REFERENCES parent"
        f" ON DELETE {action} ON UPDATE CASCADE)"
    )
    yield (
        f"CREATE TABLE person ({common}, above int REFERENCES person"
        f" ON DELETE {own} ON UPDATE CASCADE)"
    )
    yield f"CREATE TABLE part ({common}) PARTITION BY RANGE (id)"
    yield part
    yield "CREATE TABLE counter (id int PRIMARY KEY, h int, uid text, n int)"
    yield (
        "CREATE PROCEDURE add_one(which int) LANGUAGE sql"
        " AS 'UPDATE public.counter SET n = n + 1 WHERE h = which'"
    )
    yield "CREATE TABLE receipt (id text PRIMARY KEY, site text NOT NULL)"
    if trigger:
        yield _written(everywhere=trigger == TRIGGERS[2])
        yield (
            "CREATE TRIGGER writes AFTER INSERT OR UPDATE ON child"
            " FOR EACH ROW EXECUTE FUNCTION person_too()"
        )


def _written(*, everywhere: bool) -> str:
    here = "true" if everywhere else "snaptide.comes_from() IS NULL"
    return f"""
    CREATE FUNCTION person_too() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF {here} THEN
            UPDATE public.person SET note = 'of ' || NEW.note WHERE id = NEW.id;
        END IF;
        RETURN NULL;
    END $$
    """


def first(history: int) -> list[Statement]:
    """The rows that a history begins with."""
    key, common = history * 10, {"h": history, "note": ""}
    made = [insert("counter", id=key, h=history, uid=f"{history}.0", n=0)]
    for n in range(2):
        row = {"id": key + n, "uid": f"{history}.{n}", **common}
        made += [
            insert("parent", code=f"{history}{'AB'[n]}", more="", **row),
            insert("child", parent_id=key + n, **row),
            insert("part", **row),
            insert("person", above=key, **row),
        ]
    return made


#: What is done in one transaction. What stands here often happens often.
ACTS = (
    "insert",
    "update",
    "update",
    "delete",
    "key change",
    "point",
    "point",
    "code",
    "call",
)


#: What users of two masters do that cannot both be.
MEETINGS = ("notes", "note and delete", *["child and delete"] * 3, "codes", "codes")


def meeting(pen: Pen, what: str) -> tuple[list[Statement], list[Statement]]:
    """What two users do, for whoever has the rows of the pen before him."""
    table = pen.chance.choice(TABLES[1:])
    there, parent, token = pen.there(table), pen.there("parent"), pen.token()
    note = [update(table, there, note=f"n{token}")]
    match what:
        case "notes":
            return note, [update(table, there, note=f"m{token}")]
        case "note and delete":
            return note, [delete(table, there)]
        case "child and delete":
            key, uid = pen.free("child"), pen.token()
            row = {"id": key, "h": pen.history, "uid": uid, "note": f"n{token}"}
            return [insert("child", parent_id=parent, **row)], [
                delete("parent", parent)
            ]
    other = pen.there("parent")
    return [update("parent", parent, code=token)], [update("parent", other, code=token)]


def statements(pen: Pen, what: str, *, leaf: bool) -> list[Statement]:
    """The statements of an act, for whoever has the rows of the pen before him."""
    table = pen.chance.choice(TABLES)
    name = "part_low" if table == "part" and leaf else table
    there, free, token = pen.there(table), pen.free(table), pen.token()
    parent, code, above = pen.there("parent"), pen.code(), pen.there("person")
    column = pen.chance.choice(("note", "more")) if table == "parent" else "note"
    below = {"above": above if pen.chance.random() < 0.8 else None}
    own: dict[str, dict[str, object]] = {
        "parent": {"code": code},
        "child": {"parent_id": parent},
        "person": {**below},
    }
    match what:
        case "insert":
            row = {"id": free, "h": pen.history, "uid": token, "note": f"n{token}"}
            return [insert(name, **(row | own.get(table, {})))]
        case "delete":
            return [delete(name, there)]
        case "key change":
            return [update(name, there, id=free)]
        case "point" if table == "person":
            return [update("person", there, **own["person"])]
        case "point":
            return [update("child", pen.there("child"), parent_id=parent)]
        case "code":
            return [update("parent", parent, code=code)]
    return [update(name, there, **{column: f"{column[0]}{token}"})]
