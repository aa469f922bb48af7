"""What comes to a run from outside and is stored before it is absorbed: controls, and results that could not ride."""

from collections.abc import Sequence
from functools import cached_property

from ductor.journal.admission import check_control, closed_reason
from ductor.journal.codec import checked_value
from ductor.journal.commit import Payload
from ductor.journal.events import REOPENING_KINDS, TERMINAL_RUN_STATUSES
from ductor.journal.ids import is_run_id
from ductor.journal.postgres.attempts import AttemptAppender
from ductor.journal.postgres.database import Database
from ductor.journal.postgres.messages import CHAIN_LOOK_BACK
from ductor.journal.postgres.reader import decode_attempt, decode_control
from ductor.journal.postgres.rows import json_text
from ductor.journal.records import AttemptRow, Control, ControlReceipt

_TERMINAL = sorted(TERMINAL_RUN_STATUSES)
_REOPENING = sorted(REOPENING_KINDS)


class Inputs:
    """Controls and attempt rows."""

    _database: Database

    async def request_control(self, control: Control, *, tenant: str | None = None) -> ControlReceipt | None:
        """Store a request durably, idempotent by (chain of the run, request_id). None when the run does not exist (or
        is another tenant's). A closed run refuses everything but a redrive and a compensate, and the refusal says
        so; of a run that another one continues the latest one is asked."""
        check_control(control)
        if not is_run_id(control.run_id):
            return None
        row = await self._database.fetch_row(
            "request_control",
            run_id=control.run_id,
            request_id=control.request_id,
            kind=control.kind,
            arguments=json_text(control.arguments),
            by=control.by,
            requested_at_us=control.requested_at_us,
            tenant=tenant,
            terminal=_TERMINAL,
            reopening=_REOPENING,
        )
        if row is None:
            return None
        run_id = row["present_run_id"] or row["run_id"]
        if row["is_accepted"]:
            return ControlReceipt(request_id=control.request_id, verdict="accepted", run_id=run_id)
        is_closed = row["status"] in TERMINAL_RUN_STATUSES and control.kind not in REOPENING_KINDS
        if row["present_run_id"] is None and is_closed:
            reason = closed_reason(row["status"])
            return ControlReceipt(request_id=control.request_id, verdict="refused", reason=reason, run_id=run_id)
        # present already, or inserted by somebody else while this statement ran
        return ControlReceipt(request_id=control.request_id, verdict="duplicate", run_id=run_id)

    async def control(self, run_id: str, request_id: str) -> Control | None:
        """A request and what became of it, in whichever run of the chain it is now."""
        if not is_run_id(run_id):
            return None
        row = await self._database.fetch_row("control", run_id=run_id, request_id=request_id, look_back=CHAIN_LOOK_BACK)
        return None if row is None else decode_control(row[0])

    async def append_attempt(self, row: AttemptRow, payloads: Sequence[Payload] = ()) -> None:
        """Store a result that could not ride in a tick; the first row of a (run, node, generation) stays. A run that is
        gone takes none."""
        checked_value(row.output, "output")
        if not is_run_id(row.run_id):
            return
        await self._results.append(row, payloads)

    @cached_property
    def _results(self) -> AttemptAppender:
        return AttemptAppender(self._database)

    async def attempts(self, run_id: str) -> Sequence[AttemptRow]:
        """Attempt rows of a run with their dispositions, in order of node and generation."""
        if not is_run_id(run_id):
            return ()
        rows = await self._database.fetch("attempts", run_id=run_id)
        return tuple(decode_attempt(row[0]) for row in rows)
