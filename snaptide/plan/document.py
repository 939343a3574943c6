"""What a file says of a site, section by section.

A site's file is TOML. Its rules have the form that `snaptide rules export` prints, so
that a file of rules can be appended as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from masters import OnBreach
from sites import QualifiedName, names
from sites.errors import BadName
from snapshots import Leaving
from snaptide.sections import SiteName

_strict = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def _is_name(text: str) -> str:
    try:
        names.parse(text)
    except BadName as error:
        raise ValueError(error.message.removesuffix(".")) from None
    return text


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


#: A table or snapshot as users write it: `name` or `schema.name`.
Name = Annotated[str, AfterValidator(_is_name)]

#: What a role may do with a snapshot.
Privilege = Annotated[
    Literal["SELECT", "INSERT", "UPDATE", "DELETE"], BeforeValidator(_upper)
]


class SiteSection(BaseModel):
    """`[site]`: which of the settings' sites it is."""

    model_config = _strict

    name: SiteName


class GroupSection(BaseModel):
    """`[groups.NAME]`: a refresh group, whose snapshots show one moment of a master."""

    model_config = _strict

    master: SiteName
    #: How changes go to the master: by push, or in the user's own transaction.
    propagation: Literal["asynchronous", "synchronous"] = "asynchronous"


class LogSection(BaseModel):
    """`[logs.TABLE]`: the snapshot log of a master table, if it is not a plain one."""

    model_config = _strict

    #: Rows are identified by a generated column instead of the primary key.
    with_rowid: bool = False
    #: The columns whose values it records; by default those that it has.
    partition_columns: tuple[str, ...] | None = None


class SnapshotSection(BaseModel):
    """`[snapshots.NAME]`: a snapshot, with its rows and columns."""

    model_config = _strict

    #: The master table; by default the one called like the snapshot.
    table: Name | None = None
    #: The refresh group; may be left out where the file has only one.
    group: str | None = None
    #: The columns; all by default.
    columns: tuple[str, ...] | None = None
    #: A condition on the rows, in which `${name}` stands for a literal.
    where: str | None = None
    #: Foreign keys whose parents the rows follow.
    follow: tuple[str, ...] = ()
    updatable: bool = False
    #: What becomes of rows that leave the condition (`--leaving`).
    leaving: Leaving = Leaving.DRAIN
    #: By column, how an insert gets a number: lease, uuidv7 or none. By default
    #: columns that the master numbers from a sequence lease theirs.
    numbers: Mapping[str, str] = Field(default_factory=dict)
    #: What each role may do with it.
    grants: Mapping[str, tuple[Privilege, ...]] = Field(default_factory=dict)


class ScheduleSection(BaseModel):
    """`[[schedules]]`: a push, refresh, purge or check that runs by itself."""

    model_config = _strict

    kind: Literal["push", "refresh", "purge", "check"]
    #: A destination, a refresh group, or `*`.
    subject: str = "*"
    every: str
    paused: bool = False
    options: Mapping[str, Any] = Field(default_factory=dict)


class DestinationSection(BaseModel):
    """`[destinations.NAME]`: how much may wait for a master (`destination budget`)."""

    model_config = _strict

    age: str | None = None
    size: str | None = None


class PublishedSection(BaseModel):
    """`[publications.NAME.tables.TABLE]`: what sites may read of a table."""

    model_config = _strict

    #: Which rows, as `store_id = :store`; all by default.
    where: str | None = None
    #: Which columns; all by default.
    columns: tuple[str, ...] | None = None


class GrantSection(BaseModel):
    """`[publications.NAME.grants.SITE]`: a site that may read the publication."""

    model_config = ConfigDict(**_strict, coerce_numbers_to_str=True)

    #: The role as which the site connects; by default of the site's name.
    login: str | None = None
    #: Whether the site may push changes of its rows.
    updatable: bool = False
    #: A value for each parameter of the publication.
    params: Mapping[str, str] = Field(default_factory=dict)


class PublicationSection(BaseModel):
    """`[publications.NAME]`: tables of the site that others may read parts of."""

    model_config = _strict

    tables: dict[Name, PublishedSection] = Field(min_length=1)
    #: Whether the sites follow `snaptide ddl`.
    ddl: bool = True
    grants: dict[SiteName, GrantSection] = Field(default_factory=dict)


class ContractSection(BaseModel):
    """`[contracts.GROUP]`: how old what a refresh group shows may be."""

    model_config = _strict

    visible_within: str | None = None
    answered_within: str | None = None
    may_be_away: str | None = None
    log_share: str | None = None
    on_breach: OnBreach = OnBreach.TELL


class Document(BaseModel):
    """All that a file says of a site."""

    model_config = _strict

    site: SiteSection
    groups: dict[str, GroupSection] = Field(default_factory=dict)
    logs: dict[Name, LogSection] = Field(default_factory=dict)
    snapshots: dict[Name, SnapshotSection] = Field(default_factory=dict)
    #: The rules of the masters' tables, as `snaptide rules export` prints them.
    tables: dict[Name, dict[str, Any]] = Field(default_factory=dict)
    schedules: tuple[ScheduleSection, ...] = ()
    destinations: dict[SiteName, DestinationSection] = Field(default_factory=dict)
    contracts: dict[str, ContractSection] = Field(default_factory=dict)
    publications: dict[str, PublicationSection] = Field(default_factory=dict)

    @property
    def published(self) -> list[QualifiedName]:
        """The site's own tables that it publishes."""
        return [
            names.parse(table)
            for one in self.publications.values()
            for table in one.tables
        ]
