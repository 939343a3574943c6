"""The policies that bind what logins of sites read, as statements.

PostgreSQL adds them to every statement of such a login, whatever it asks. They restrict
members of `snaptide_site`; a policy that is always true lets all others see every row,
at no cost to them. Were there one policy for sites and one for others, PostgreSQL would
join them by OR, and use no index for either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from psycopg import sql

from masters.publications import rows
from masters.publications.published import Published
from sites import QualifiedName
from sites.catalog import SCHEMA
from sites.names import comma, identifier, identifiers

#: The role whose members are logins of sites; it has no right itself.
ROLE = "snaptide_site"
#: What the names of policies begin with, as `sites/sql/described.sql` knows it.
PREFIX = "snaptide$"
_OTHERS = sql.Identifier(f"{PREFIX}others")
_MINE = sql.Identifier(f"{PREFIX}site")
_ROLE = sql.Identifier(ROLE)

_OWN = "{} = ANY ((SELECT snaptide.granted_origins())::uuid[])"
_SITE = "(SELECT snaptide.granted_site())"
_CONTACT = f"name = {_SITE} AND role = 'site'"
_PUBLISHED = "snaptide.is_granted(table_schema, table_name)"
_BY_SITE = _OWN.format("origin_id")
#: Calls that the login's transaction has parked. It does not read what operators make
#: of them later: they may put rows of the master there.
_JUST_PARKED = (
    "error_id IN (SELECT t.id FROM snaptide.error_transaction t"
    " WHERE t.parked_at >= now())"
)
#: Calls of tables that are granted, in the form that a push gives them: programs of an
#: operator read them, and would stumble over another form.
_CALLS = (
    "snaptide.is_granted(target_schema, target_table)"
    " AND COALESCE(old_values, new_values) IS NOT NULL"
    " AND COALESCE(json_typeof(old_values), 'object') = 'object'"
    " AND COALESCE(json_typeof(new_values), 'object') = 'object'"
    " AND COALESCE(json_typeof(current_values), 'object') = 'object'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """What a login may do with a table of ours, and in which rows of it.

    `UPDATE` or `DELETE` on a whole table also lets it lock that table. It has them
    only where a refresh or push deletes rows, because `DELETE` cannot be limited to
    columns; the page for users names these tables.
    """

    #: what each login may do, and what those that push may do besides
    rights: str = ""
    pushes: str = ""
    #: the rows that it sees, and those that it may write, if these are fewer
    rows: str
    written: str = ""

    @property
    def version(self) -> str:
        """What tells its policy from those that other versions have made."""
        text = f"{self.rows}\n{self.written}"
        return f"snaptide {hashlib.sha256(text.encode()).hexdigest()[:16]}"


OURS: dict[str, Ours] = {
    "peer": Ours(
        rights="SELECT, INSERT (site_id, role, name, incarnation, former, contact_no,"
        " token, next_token), UPDATE (name, incarnation, former, contact_no, token,"
        " next_token)",
        rows=_CONTACT,
    ),
    "registered_snapshot": Ours(
        rights="SELECT, INSERT, UPDATE, DELETE",
        rows=f"site_name = {_SITE} AND {_PUBLISHED}",
    ),
    "push_marker": Ours(
        rights="SELECT",
        pushes="INSERT (origin_id, origin, watched),"
        " UPDATE (batch_no, batch_id, order_no)",
        rows=_BY_SITE,
        written=f"{_BY_SITE} AND origin = {_SITE}",
    ),
    # Transactions that began elsewhere would tell of these sites.
    "push_batch": Ours(
        rights="SELECT",
        pushes="INSERT (origin_id, number, id, orders, started, transactions, origins,"
        " made, traceparent), UPDATE (id, orders, started, transactions, origins, made,"
        " traceparent)",
        rows=_BY_SITE,
        written=f"{_BY_SITE} AND origins IS NULL AND made IS NULL",
    ),
    "error_transaction": Ours(
        rights="SELECT",
        pushes="INSERT (origin_id, origin, origin_transaction, origin_user, batch_no,"
        " order_no, start_time, sources, reason, error_code, error_message, waits_for,"
        " target_columns)",
        rows=_BY_SITE,
        written=f"{_BY_SITE} AND origin = {_SITE} AND sources IS NULL"
        " AND reason <> 'withdrawn' AND snaptide.known_types(target_columns)",
    ),
    "error_call": Ours(
        pushes="SELECT (error_id, call_no, kind, old_values, new_values, conflict),"
        " INSERT, UPDATE (old_values, new_values, conflict)",
        rows=_JUST_PARKED,
        written=f"{_JUST_PARKED} AND {_CALLS}",
    ),
    "error_procedure": Ours(
        pushes="SELECT, INSERT (error_id, call_no, name, arguments, ran_here, error)",
        rows="error_id IN (SELECT t.id FROM snaptide.error_transaction t)",
        written=_JUST_PARKED,
    ),
    "error_footprint": Ours(rights="SELECT, DELETE", pushes="INSERT", rows=_BY_SITE),
    "resolution_record": Ours(
        pushes="SELECT, INSERT (table_schema, table_name, row_key, origin, kind,"
        " origin_transaction, reference, sequence_no, method, decision, old_values,"
        " new_values, current_values, result_values, master, changed_at, columns,"
        " rules_version, reason, number, call_no, deleted_at), UPDATE (result_values),"
        " DELETE",
        rows=f"origin = {_SITE} AND {_PUBLISHED} AND resolved_at >= now()",
    ),
    "column_group": Ours(pushes="SELECT", rows=_PUBLISHED),
    "comparison": Ours(pushes="SELECT", rows=_PUBLISHED),
    "resolution_rule": Ours(pushes="SELECT", rows=_PUBLISHED),
    "rules_version": Ours(pushes="SELECT (id, columns)", rows="true"),
    "unchecked_table": Ours(pushes="SELECT", rows=_PUBLISHED),
    "snapshot_log": Ours(rights="SELECT", rows=_PUBLISHED),
    "site_ddl": Ours(rights="SELECT", rows=f"{_PUBLISHED} AND NOT withheld"),
    "lens": Ours(rights="SELECT", rows=_PUBLISHED),
    # What it is promised; not what the master keeps for it, nor what looks find.
    "contract": Ours(
        rights="SELECT (site_id, refresh_group, visible_within, answered_within,"
        " on_breach)",
        rows=_OWN.format("site_id"),
    ),
    # A procedure would change rows of other sites, too: none runs for a login.
    "allowed_procedure": Ours(pushes="SELECT", rows="false"),
    "group_schema": Ours(rights="SELECT", rows=_PUBLISHED),
    "second_way": Ours(rights="SELECT", rows="false"),
    "image": Ours(rights="SELECT", rows="false"),
    "snapshot": Ours(rights="SELECT", rows="false"),
}
#: Tables that a login may read as a whole: they say who the master is.
FACTS = ("site_identity", "alembic_version")


def guarding(tables: Iterable[QualifiedName]) -> Iterator[sql.Composed]:
    """The statements that let policies decide, and one that lets all see each row."""
    for name in map(identifier, tables):
        yield sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(name)
        yield sql.SQL("CREATE POLICY {} ON {} USING (true)").format(_OTHERS, name)


def unguarding(tables: Iterable[QualifiedName]) -> Iterator[sql.Composed]:
    """The statements that undo `guarding`."""
    for name in map(identifier, tables):
        yield sql.SQL("DROP POLICY IF EXISTS {} ON {}").format(_OTHERS, name)
        yield sql.SQL("ALTER TABLE {} DISABLE ROW LEVEL SECURITY").format(name)


def binding(one: Published) -> Iterator[sql.Composed]:
    """The statements that show logins their rows of a table, and of its log."""
    yield _policy(one, identifier(one.table.qualified), rows.granted(one))
    yield _policy(one, identifier(one.log_name), rows.changed(one))


def unbinding(
    publication_id: int, tables: Iterable[QualifiedName]
) -> Iterator[sql.Composed]:
    """The statements that undo `binding`, for tables and logs that are there."""
    for name in map(identifier, tables):
        yield sql.SQL("DROP POLICY IF EXISTS {} ON {}").format(
            _named(publication_id), name
        )


def binding_ours() -> Iterator[sql.Composed]:
    """The statements that show logins their site's rows of tables of ours."""
    yield from guarding(_ours())
    for table, its in zip(_ours(), OURS.values(), strict=True):
        yield sql.SQL(
            "CREATE POLICY {} ON {} AS RESTRICTIVE TO {} USING ({}) WITH CHECK ({})"
        ).format(
            _MINE,
            identifier(table),
            _ROLE,
            sql.SQL(its.rows),
            sql.SQL(its.written or its.rows),
        )
        yield sql.SQL("COMMENT ON POLICY {} ON {} IS {}").format(
            _MINE, identifier(table), sql.Literal(its.version)
        )


#: Whether tables of ours have the policies of this version. Earlier versions have bound
#: fewer tables, or other rows of them.
BOUND = sql.SQL(
    "SELECT count(*) = {} FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid"
    " WHERE c.relnamespace = {}::regnamespace AND p.polname = {}"
    " AND (c.relname, obj_description(p.oid, 'pg_policy')) IN ({})"
).format(
    sql.Literal(len(OURS)),
    sql.Literal(SCHEMA),
    sql.Literal(f"{PREFIX}site"),
    comma(
        sql.SQL("({}, {})").format(sql.Literal(name), sql.Literal(its.version))
        for name, its in OURS.items()
    ),
)


def unbinding_ours() -> Iterator[sql.Composed]:
    """The statements that undo `binding_ours`."""
    for table in _ours():
        yield sql.SQL("DROP POLICY IF EXISTS {} ON {}").format(_MINE, identifier(table))
    yield from unguarding(_ours())


def opening(one: Published, login: str, *, updatable: bool) -> Iterator[sql.Composed]:
    """The statements that give a login its rights on a table and its log.

    Parameters:
        updatable: it may change the rows that it reads, as the policy then says.
    """
    to, name = sql.Identifier(login), identifier(one.table.qualified)
    yield sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(
        sql.Identifier(one.table.schema), to
    )
    yield sql.SQL("GRANT {} ON {} TO {}").format(
        sql.SQL(", ").join(_rights(one, updatable=updatable)), name, to
    )
    yield sql.SQL("GRANT SELECT ON {} TO {}").format(identifier(one.log_name), to)
    if updatable:
        yield sql.SQL("ALTER POLICY {} ON {} WITH CHECK ({}{})").format(
            _named(one.publication_id),
            name,
            sql.SQL("(SELECT snaptide.may_change({}))").format(
                sql.Literal(one.publication_id)
            ),
            rows.granted(one),
        )


def _rights(one: Published, *, updatable: bool) -> Iterator[sql.Composable]:
    if one.columns is None:
        yield sql.SQL("SELECT")
        if updatable:
            yield sql.SQL("INSERT, UPDATE, DELETE")
        return
    # A refresh of all rows reads them page by page.
    read = dict.fromkeys(("ctid", *one.columns))
    yield sql.SQL("SELECT ({})").format(comma(identifiers([*read])))
    # A refresh locks the table against DDL, for which PostgreSQL wants a right on the
    # whole of it. DELETE is one. A login that does not push gets INSERT, and no policy
    # lets it insert a row.
    if updatable:
        columns = comma(identifiers(one.columns))
        yield sql.SQL("INSERT ({0}), UPDATE ({0}), DELETE").format(columns)
    else:
        yield sql.SQL("INSERT")


def closing(tables: Iterable[QualifiedName], login: str) -> Iterator[sql.Composed]:
    """The statements that take rights on tables away; that on the schema stays."""
    for name in map(identifier, tables):
        yield sql.SQL("REVOKE ALL ON {} FROM {}").format(name, sql.Identifier(login))


def opening_ours(login: str, *, updatable: bool) -> Iterator[sql.Composed]:
    """The statements that give a login its rights on tables of ours.

    Parameters:
        updatable: it may push.
    """
    to = sql.Identifier(login)
    # Policies bind those who inherit, which a role made with NOINHERIT does not by
    # itself. By SET ROLE it would be a member of none.
    yield sql.SQL("GRANT {}, snaptide_apply TO {} WITH INHERIT TRUE, SET FALSE").format(
        _ROLE, to
    )
    for name, its in OURS.items():
        rights = [its.rights, its.pushes if updatable else ""]
        if any(rights):
            yield sql.SQL("GRANT {} ON {} TO {}").format(
                sql.SQL(", ".join(filter(None, rights))),
                sql.Identifier(SCHEMA, name),
                to,
            )
    for name in FACTS:
        yield sql.SQL("GRANT SELECT ON {} TO {}").format(
            sql.Identifier(SCHEMA, name), to
        )


def closing_ours(login: str) -> Iterator[sql.Composed]:
    """The statements that take away what `opening_ours` gives, but for the roles."""
    return closing(_ours(*OURS, *FACTS), login)


def _ours(*names: str) -> list[QualifiedName]:
    return [QualifiedName(SCHEMA, name) for name in names or OURS]


def _named(publication_id: int) -> sql.Identifier:
    return sql.Identifier(f"{PREFIX}{publication_id}")


def _policy(
    one: Published, table: sql.Composable, condition: sql.Composable
) -> sql.Composed:
    return sql.SQL(
        "CREATE POLICY {} ON {} AS RESTRICTIVE TO {}"
        " USING ((SELECT snaptide.granted({}) IS NOT NULL){}) WITH CHECK (false)"
    ).format(
        _named(one.publication_id),
        table,
        _ROLE,
        sql.Literal(one.publication_id),
        condition,
    )
