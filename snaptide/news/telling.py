"""One look at all sites: notes what is new, and has the hooks take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sites import Site
from sites.errors import SnaptideError
from snaptide.asking import said_of
from snaptide.errors import HookFailed
from snaptide.news.hooks import Hook
from snaptide.news.ledger import Ledger, Untaken, opened
from snaptide.news.seen import News, in_short, seen

#: What a hook has not taken for so long is not offered to it any more.
GIVEN_UP = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a look came to."""

    news: Sequence[News]
    #: by hook, why it takes nothing now; what it has not taken waits for the next look
    failed: Mapping[str, str]
    #: by site, why it cannot be looked at
    away: Mapping[str, str]
    #: what a hook has not taken for a day
    given_up: Sequence[News]


def tell(sites: Sequence[Site], hooks: Mapping[str, Hook], path: Path) -> Told:
    """Look at sites, and tell what was not told before.

    Parameters:
        path: of the file that remembers what was told; it need not be there.

    Raises:
        BadLedger: it cannot be read or written.
    """
    with opened(path) as ledger:
        found, away = _look(sites)
        news = [one for name in found for one in _new(ledger, name, found[name])]
        now = datetime.now(UTC)
        ledger.untaken += [
            Untaken(hook=hook, news=one, since=now) for one in news for hook in hooks
        ]
        # What is noted here and not taken yet is offered again after a crash.
        ledger.save()
        failed = _offer(ledger, hooks)
        given_up = [one for one in ledger.untaken if now - one.since > GIVEN_UP]
        ledger.untaken = [one for one in ledger.untaken if one not in given_up]
        ledger.save()
        return Told(
            news=news, failed=failed, away=away, given_up=[o.news for o in given_up]
        )


def _look(
    sites: Sequence[Site],
) -> tuple[dict[str, Mapping[str, News]], dict[str, str]]:
    def ask(site: Site) -> Mapping[str, News] | SnaptideError:
        try:
            return seen(site)
        except Exception as error:
            return said_of(site, error)

    with ThreadPoolExecutor(max(len(sites), 1)) as pool:
        answers = dict(zip((s.name for s in sites), pool.map(ask, sites), strict=True))
    found = {n: a for n, a in answers.items() if not isinstance(a, SnaptideError)}
    away = {n: a.message for n, a in answers.items() if isinstance(a, SnaptideError)}
    return found, away


def _new(ledger: Ledger, site: str, found: Mapping[str, News]) -> list[News]:
    """What was not told of a site; what is over may be told again if it comes back."""
    told = set(ledger.told.get(site, ()))
    ledger.told[site] = list(found)
    return in_short(site, [one for key, one in found.items() if key not in told])


def _offer(ledger: Ledger, hooks: Mapping[str, Hook]) -> dict[str, str]:
    """Have hooks take what they have not taken; one that fails gets no more now."""
    failed: dict[str, str] = {}
    for one in list(ledger.untaken):
        hook = hooks.get(one.hook)
        if hook is None:
            ledger.untaken.remove(one)
        elif one.hook not in failed:
            try:
                hook(one.news)
            except HookFailed as error:
                failed[one.hook] = error.message
            else:
                ledger.untaken.remove(one)
                ledger.save()
    return failed
