"""What the memory store keeps of controls, and of results that could not ride in a tick."""

from collections.abc import Sequence

import msgspec

from ductor.journal.admission import check_control, check_json, closed_reason
from ductor.journal.clock import Clock
from ductor.journal.codec import checked_value
from ductor.journal.commit import Payload
from ductor.journal.events import REOPENING_KINDS
from ductor.journal.memory_forwarding import MemoryForwarding
from ductor.journal.memory_rows import RunRows
from ductor.journal.records import AttemptRow, Control, ControlReceipt


class MemoryInputs(MemoryForwarding):
    """Controls and attempt rows, and which runs they wait for."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._with_controls: dict[str, None] = {}
        self._with_attempts: dict[str, None] = {}

    async def request_control(self, control: Control, *, tenant: str | None = None) -> ControlReceipt | None:
        """Store a request, idempotent by (run_id, request_id). None when the run does not exist or is another
        tenant's. A closed run refuses everything but a redrive and a compensate."""
        check_control(control)
        asked = self._run(control.run_id)
        if asked is None or (tenant is not None and asked.head.tenant != tenant):
            return None
        for run_id in self._places_of_input(asked, "control", control.request_id):
            if control.request_id in self._runs[run_id].controls:
                return ControlReceipt(request_id=control.request_id, verdict="duplicate", run_id=run_id)
        run = self._latest_run(asked)
        run_id = run.head.run_id
        if run.is_closed and control.kind not in REOPENING_KINDS:
            reason = closed_reason(run.head.status)
            return ControlReceipt(request_id=control.request_id, verdict="refused", reason=reason, run_id=run_id)
        requested_at_us = control.requested_at_us or self._clock.now_us()
        run.add_control(msgspec.structs.replace(control, run_id=run_id, requested_at_us=requested_at_us))
        self._index_inputs(run_id, run)
        return ControlReceipt(request_id=control.request_id, verdict="accepted", run_id=run_id)

    async def control(self, run_id: str, request_id: str) -> Control | None:
        """A request and what became of it, in whichever run of the chain it is now."""
        run = self._run(run_id)
        places = [] if run is None else self._places_of_input(run, "control", request_id)
        found = (self._runs[place].read_control(request_id) for place in places)
        return next((control for control in found if control is not None), None)

    async def append_attempt(self, row: AttemptRow, payloads: Sequence[Payload] = ()) -> None:
        """Store a result; the first row of a (run, node, generation) stays. A run that is gone takes none."""
        checked_value(row.output, "output")
        for payload in payloads:
            check_json(payload.text, "payload")
        run = self._run(row.run_id)
        if run is not None and run.add_attempt(row):
            run.add_payloads(payloads)
            self._index_inputs(row.run_id, run)

    async def attempts(self, run_id: str) -> Sequence[AttemptRow]:
        """Attempt rows of a run with their dispositions, in order of node and generation."""
        run = self._run(run_id)
        return () if run is None else run.read_attempts(sorted(run.attempts))

    def _index_inputs(self, run_id: str, run: RunRows) -> None:
        for waiting, run_ids in (
            (run.waiting_controls, self._with_controls),
            (run.waiting_attempts, self._with_attempts),
        ):
            if waiting:
                run_ids[run_id] = None
            else:
                run_ids.pop(run_id, None)
