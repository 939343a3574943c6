"""Errors of the program itself: settings (SNP-01x) and commands (SNP-4xx)."""

from __future__ import annotations

from sites.errors import SnaptideError


class SettingsNotFound(SnaptideError):
    """There is no snaptide.toml."""

    code = "SNP-011"
    hint = (
        "Write one ([sites.NAME] url = ...), or give its path with --config or "
        "SNAPTIDE_CONFIG."
    )


class BadSettings(SnaptideError):
    """The settings are not valid."""

    code = "SNP-012"
    hint = "docs/reference/settings.md lists all settings."


class UnsetVariable(SnaptideError):
    """The settings name an environment variable that is not set."""

    code = "SNP-013"
    hint = "Set it, or write $${NAME} if you mean the text itself."


class UnreadableSecret(SnaptideError):
    """A password file cannot be read."""

    code = "SNP-014"
    hint = (
        "Correct the path or its permissions; a relative path starts at the folder of "
        "snaptide.toml."
    )


class NoBroker(SnaptideError):
    """No broker is configured, or it does not answer."""

    code = "SNP-402"
    hint = "Set [broker] url in snaptide.toml, and start Redis. No change is lost."


class DatabaseError(SnaptideError):
    """The database refused a statement."""

    code = "SNP-403"
    hint = "Run again with --debug to see the statement."


class OnlyReads(DatabaseError):
    """The database lets Snaptide's sessions read, and write nothing."""

    code = "SNP-417"
    hint = (
        "Somebody has set default_transaction_read_only for the database, the role or "
        "the server; some services do when the disk is full. snaptide doctor names the "
        "site. Queued changes are kept."
    )


class NotThere(DatabaseError):
    """The database lacks a table, column or function."""

    code = "SNP-408"
    hint = (
        "If it belongs to the schema snaptide, a site was not upgraded with the "
        "program: snaptide doctor names the site, and snaptide site init NAME "
        "upgrades it."
    )


class NotPermitted(SnaptideError):
    """Snaptide's database user lacks a privilege."""

    code = "SNP-406"
    hint = (
        "docs/howto/security.md lists what each role needs. Only the owner of the "
        "schema snaptide can create, fill for the first time, drop and upgrade."
    )


class Unexpected(SnaptideError):
    """An unexpected error occurred."""

    code = "SNP-499"
    hint = "Run the command again with --debug, and report what it prints."


class BadArgument(SnaptideError):
    """The command's arguments are not valid."""

    code = "SNP-404"
    hint = "Run the command with --help for examples."


class NotRegistered(SnaptideError):
    """No snapshot with that name is registered at this master."""

    code = "SNP-409"
    hint = (
        "snaptide log list SITE lists the registered ones, as SNAPSHOT_SITE:SNAPSHOT."
    )


class CannotRepair(SnaptideError):
    """The site cannot be repaired now."""

    code = "SNP-405"
    hint = "The message says what is missing. Nothing was changed."


class BadLedger(SnaptideError):
    """The record of what hooks were told cannot be used."""

    code = "SNP-491"
    hint = (
        "Make the file one that can be written, or remove it: then everything that is "
        "wrong now is told again."
    )


class HookFailed(SnaptideError):
    """A hook has not taken what it was told."""

    code = "SNP-492"
    hint = "It is offered again at the next look, for a day."
