"""Errors of publications and grants: codes SNP-15x."""

from __future__ import annotations

from sites.errors import SnaptideError


class UnknownPublication(SnaptideError):
    """The master has no publication of that name."""

    code = "SNP-150"
    hint = "Run: snaptide publication list SITE"


class PublicationExists(SnaptideError):
    """The master has a publication of that name."""

    code = "SNP-151"
    hint = "Choose another name, or change it: snaptide publication alter SITE NAME"


class CannotPublish(SnaptideError):
    """The master cannot let sites read the table, bound to parameters."""

    code = "SNP-152"
    hint = "The message says why, and what to do about it. Nothing was changed."


class BadTemplate(SnaptideError):
    """The condition of a published table is not one that the master can bind."""

    code = "SNP-153"
    hint = (
        "Write columns and parameters, as in: store_id = :store AND region = :region, "
        "or a parent that the row follows, as in: follows customer."
    )


class WrongParameters(SnaptideError):
    """The values given for a publication's parameters do not fit."""

    code = "SNP-154"
    hint = "Give one value for each parameter, as in: --param store=3"


class LoginUnfit(SnaptideError):
    """The login has rights beyond what is granted here, or is another site's."""

    code = "SNP-155"
    hint = (
        "Give each site a login of its own (CREATE ROLE NAME LOGIN PASSWORD '...'), "
        "and take away what the message names, from the login or from PUBLIC."
    )


class UnknownGrant(SnaptideError):
    """The publication is not granted to the site."""

    code = "SNP-156"
    hint = "Run: snaptide publication show SITE NAME"


class PublicationGranted(SnaptideError):
    """Sites read the publication, so it cannot be dropped."""

    code = "SNP-157"
    hint = "Revoke it from each of them first: snaptide revoke SITE PUBLICATION NAME"
