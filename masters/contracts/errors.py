"""Errors of contracts: codes SNP-44x."""

from __future__ import annotations

from sites.errors import SnaptideError


class UnknownContract(SnaptideError):
    """The master keeps no such contract."""

    code = "SNP-440"
    hint = "List those that there are with: snaptide contract list SITE"


class ContractWithoutTerms(SnaptideError):
    """The contract promises nothing."""

    code = "SNP-441"
    hint = (
        "Give at least one of --visible-within, --answered-within, --may-be-away and "
        "--log-share; to end a contract, run: snaptide contract drop MASTER SITE GROUP"
    )


class TermsContradict(SnaptideError):
    """The terms of the contract cannot be kept together."""

    code = "SNP-442"
    hint = (
        "A site may be away for longer than its changes may be invisible, a repair "
        "and a release need a limit at which they happen, and answers are promised to "
        "a group that has an updatable snapshot. Nothing was changed."
    )
