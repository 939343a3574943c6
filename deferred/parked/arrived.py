"""A transaction that has come to this master, as it is applied from work tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from sqlalchemy import Connection

from deferred.batches import lost_rows, provenance
from deferred.batches.called import ProcedureCall
from deferred.parked.decided_alone import DecidedAlone
from deferred.procedures.steps import Steps
from masters.apply import ApplyUnit, SourceTransaction
from sites.progress import RowsDone
from sites.writing.staged import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A transaction as it was where it was made, and how it came here."""

    #: its id where it was made
    transaction: str
    #: the site that made it; `user` and `made_at` are from there, too
    origin: str
    user: str
    made_at: datetime | None
    #: the same, as rules and the record of resolutions want it
    source: SourceTransaction
    #: who has sent it
    sender_id: UUID
    #: this master
    master: str
    #: by id of a group, the master at which it began
    sources: Mapping[str, str] | None
    #: the procedures that it calls
    calls: Sequence[ProcedureCall]

    def steps(
        self,
        connection: Connection,
        staged: Sequence[Staged],
        counts: Mapping[int, Sequence[Mapping[str, int]]],
        *,
        parked: bool | None = None,
        on_progress: RowsDone | None = None,
    ) -> Steps:
        """The transaction as it is in the work tables: one unit for each of its steps.

        Parameters:
            counts: by the number of each unit, in order, how many changes of each kind
                it has in each work table.
            parked: whether anything of its sender is parked, if that is known.
        """
        facts = provenance.facts(
            origin=self.origin,
            transaction=self.transaction,
            user=self.user,
            made_at=self.made_at,
            began_at=self.sources,
        )
        units = [
            ApplyUnit(
                number=number,
                staged=staged,
                counts=count,
                origin=self.origin,
                master=self.master,
                transaction_of=lambda _: self.source,
                facts=facts,
                on_progress=on_progress,
                # A master of a group has no refresh that would show it lost rows.
                on_lost=None
                if provenance.by_group(self.sources)
                else partial(lost_rows.write, connection, self.sender_id),
                on_alone=DecidedAlone(connection=connection, sources=self.sources)
                if self.sources
                else None,
            )
            for number, count in counts.items()
        ]
        return Steps(units=units, calls=self.calls, parked=parked)
