"""Errors of embedded servers."""

from sites.errors import SnaptideError


class EmbeddedServerError(SnaptideError):
    """An embedded server could not be started."""

    code = "SNP-490"
    hint = "Look at the log in the server's folder."
