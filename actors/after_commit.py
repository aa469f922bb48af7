"""What follows a commit that is durable: attempts go to workers, and what was written for others is brought to them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ductor.actors.commits import assignment_of
from ductor.actors.handing_over import StartingRun
from ductor.actors.messages import AttemptResult
from ductor.actors.tick.outbox import Outbox
from ductor.actors.tick.payload import TickPayload
from ductor.definitions.program import Program
from ductor.journal.commit import Commit
from ductor.journal.ids import attempt_token
from ductor.journal.lease_store import LeaseKey
from ductor.journal.records import AttemptRow, Control
from ductor.journal.state import RunState

if TYPE_CHECKING:
    from ductor.actors.engine import Engine


class InFlight(msgspec.Struct, gc=False):
    """The commit that waits for its answer, and what follows it."""

    commit: Commit
    payload: TickPayload
    results: Sequence[AttemptResult]
    rows: Sequence[AttemptRow]
    control: Control | None
    starting: Sequence[StartingRun]


def hand_out(engine: "Engine", program: Program, state: RunState, payload: TickPayload) -> None:
    """Attempts go to workers, and those that are to stop are told so."""
    for ref in payload.dispatched:
        if state.nodes[ref].status == "running":  # not withdrawn again by a later decision of the same tick
            engine.offer(assignment_of(state, program.node(ref).step, ref, is_redelivery=False))
    for withdrawal in payload.withdrawn:
        engine.cancel(attempt_token(state.run_id, withdrawal.node, withdrawal.generation))


def tell_others(engine: "Engine", state: RunState, in_flight: InFlight, outbox: Outbox) -> None:
    """Bring what the commit has written for others to whom it concerns."""
    commit = in_flight.commit
    if commit.waits or commit.published or commit.sent or commit.digests or commit.sent_controls or commit.new_runs:
        _bring(engine, commit)
    for run in in_flight.starting:
        engine.begin(run.begun)
    if commit.forwards_to:
        engine.wake(commit.forwards_to, reissues=False)  # what waited for this run waits for that one now
    if outbox.leases or outbox.leases_gone:
        keys = (*(lease.key for lease in outbox.leases.values()), *outbox.leases_gone.values())
        engine.leases_changed([LeaseKey(state.tenant, key) for key in keys])


def _bring(engine: "Engine", commit: Commit) -> None:
    """Runs that the commit has told something look at it, and the bus too."""
    asked = (control.run_id for control in commit.sent_controls)
    for run_id in dict.fromkeys((*(sent.run_id for sent in commit.sent), *asked)):
        engine.wake(run_id, reissues=False)
    is_keyed = any(new.start.key is not None for new in commit.new_runs)
    if is_keyed or any(control.kind == "compensate" for control in commit.sent_controls):
        engine.wake(commit.run_id, reissues=False)  # the store may have told it that a child does not exist
    if commit.published or commit.waits or commit.digests:
        engine.bus_work(commit)
