"""What must hold once a campaign is over: the promises made to senders, and what lies in the database beside journals.

The checks that look at open runs are made twice: when the faults have stopped and everything has come to rest (then
each open run must have a good reason to wait), and after everything that was waited for has been sent (then no run may
be open any more).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from ductor.actors.engine import Engine
from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.verify import comparable, prove_rows
from ductor.definitions.fields import UNDO_SUFFIX
from ductor.journal.codec import decode_value, encode_state
from ductor.journal.events import TERMINAL_RUN_STATUSES
from ductor.journal.ids import attempt_token
from ductor.journal.records import Head, LoadedRun
from ductor.journal.replay import loaded_state
from ductor.journal.state import RunState
from scripts.simulation.chains import check_chains, states_of
from scripts.simulation.compaction_model import check_compacted
from scripts.simulation.database import SimulatedDatabase
from scripts.simulation.gather_model import check_gathers
from scripts.simulation.lease_model import check_leases
from scripts.simulation.machines import World
from scripts.simulation.replaying import check_replay
from scripts.simulation.senders import Acknowledged
from scripts.simulation.watcher import Watcher

OVERDUE_US: Final = 5_000_000
"""A timer that is later than this, with all hosts alive and nothing else to do, was forgotten."""

WINDOW_US: Final = 25_000_000
"""Longer than any window of a digest is open."""

OF_HEAD: Final = (
    "status",
    "tenant",
    "definition",
    "manifest_hash",
    "key",
    "parent_run_id",
    "parent_node",
    "root_run_id",
    "chain_run_id",
    "iteration",
    "successor_run_id",
    "compensated",
)
"""What the head of a run repeats of its journal."""

Report = Callable[[str, str, str], None]


def loaded(world: World, run_id: str) -> LoadedRun:
    """A run as a fresh coordinator would load it."""
    found = world.database.call("load", (run_id,), {})
    assert isinstance(found, LoadedRun)
    return found


def open_runs(world: World) -> list[tuple[LoadedRun, RunState]]:
    """The runs that have not ended."""
    runs = [loaded(world, run_id) for run_id in world.database.run_ids()]
    return [(run, loaded_state(run)) for run in runs if run.head.status not in TERMINAL_RUN_STATUSES]


def check_waiting(world: World, engines: Sequence[Engine], report: Report) -> None:
    """Every open run has a good reason to wait, and nothing waits for it that it could take."""
    now_us = world.clock.now_us()
    open_now = open_runs(world)
    check_leases(world, (state for _, state in open_now), lambda run_id, what: report(run_id, "leases", what))
    for run, state in open_now:
        run_id = state.run_id
        for problem in _reasons_missing(world.database, state, engines, now_us):
            report(run_id, "liveness", problem)
        if run.controls:
            report(run_id, "liveness", f"requests wait: {[control.request_id for control in run.controls]}")
        is_paused = state.paused_at_us is not None
        if not is_paused and (run.messages or run.attempts):
            waiting = [message.id for message in run.messages] + [
                f"{row.node}/{row.generation}" for row in run.attempts
            ]
            report(run_id, "liveness", f"messages or results wait: {waiting}")
        due_us = state.next_due_us
        if due_us is not None and due_us < now_us - OVERDUE_US:
            report(run_id, "liveness", f"a timer is {(now_us - due_us) // 1_000} ms overdue")
        missed = world.database.missed_events(run_id)
        if missed:
            report(run_id, "events", f"events were not brought to their waits: {missed}")
        if world.database.due_at_us(run_id) != due_us:
            report(run_id, "stored timer", f"{world.database.due_at_us(run_id)} is stored, {due_us} is next")
    for event_id in world.database.unmatched():
        report("", "liveness", f"event {event_id} was never matched")


def _child_missing(database: SimulatedDatabase, state: RunState, ref: str) -> Iterator[str]:
    """Why a step should not wait for what it has started."""
    node = state.nodes[ref]
    if node.fanout is not None:
        is_pausing = state.timers.due_at_us(ref) is not None
        if not is_pausing and not any(other.startswith(f"{ref}[") for other in state.open_nodes):
            yield f"scatter {ref} waits and no child of it is under way"
        return
    child = state.nodes[ref.removesuffix(UNDO_SUFFIX)].child_run_id
    if not database.is_open(child):
        yield f"step {ref} waits for child run {child}, which is not open"


def _reasons_missing(database: SimulatedDatabase, state: RunState, engines: Sequence[Engine], now_us: int) -> list[str]:
    if state.paused_at_us is not None:
        return []
    if not state.open_nodes and state.continuing is not None and state.timers:
        return []  # it pauses before the run that continues it begins
    if not state.open_nodes:
        return [f"nothing is open and the run is {state.status}"]
    problems: list[str] = []
    for ref in state.open_nodes:
        node = state.nodes[ref]
        if node.status == "running":
            token = attempt_token(state.run_id, ref, node.generation)
            if not any(engine.pool.holds(token) for engine in engines):
                problems.append(f"step {ref} runs attempt {node.generation} and no worker has it")
        elif node.waiting == "digest":
            if node.parked_at_us < now_us - WINDOW_US:
                problems.append(f"step {ref} waits for a window that should have closed")
        elif node.waiting == "child":
            problems.extend(_child_missing(database, state, ref))
        elif not node.is_listening and state.timers.due_at_us(ref) is None:
            problems.append(f"step {ref} waits for {node.waiting} without a timer")
    problems.extend(
        f"signal {message.id} is buffered and a step waits for it"
        for message in state.inbox.values()
        if message.kind == "signal" and f"signal:{message.name}" in state.listeners
    )
    return problems


def check_live_states(world: World, engines: Sequence[Engine], report: Report) -> None:
    """What coordinators hold in memory is what folding the journal up to there gives."""
    for engine in engines:
        for actor in engine.directory:
            state = actor.state
            if state is None or not state.version or state.version != world.database.version(actor.run_id):
                continue
            if comparable(state) != comparable(loaded_state(loaded(world, actor.run_id))):
                report(actor.run_id, "live state", f"version {state.version} in memory is not what the journal says")


def check_runs(world: World, watcher: Watcher, report: Report) -> int:
    """Each run by itself: its rows, its head, and what lies beside it. How many rows were proved."""
    count = 0
    for run_id in world.database.run_ids():
        run = loaded(world, run_id)
        rows = world.database.rows(run_id)
        count += len(rows)
        payloads = {hash: decode_value(text) for hash, text in world.database.payloads(run_id).items()}
        programs = RunPrograms(watcher.programs[run.head.manifest_hash], watcher.programs)
        state = prove_rows(programs, run_id, rows, payloads, partial(report, run_id))
        check_replay(run, rows, world.database.payloads(run_id), programs, partial(report, run_id))
        check_compacted(run_id, rows, partial(report, run_id, "compaction"))
        if world.database.removals.rows(run_id):
            left = world.database.call("history", (run_id,), {"limit": 1_000_000})
            check_replay(run, left, world.database.payloads_left(run_id), programs, partial(report, run_id))
        if encode_state(loaded_state(run)) != encode_state(state):
            report(run_id, "live state", "what a snapshot and the rows after it give is not what all rows give")
        _check_head(run.head, state, partial(report, run_id, "head"))
        check_gathers(state, partial(report, run_id, "gather"))
        _check_beside(world, state, report)
        _check_messages(world, watcher, state, report)
    watcher.tree.check()
    check_chains(world.database, watcher, states_of(world.database), report)
    return count


def _check_head(head: Head, state: RunState, report: Callable[[str], None]) -> None:
    """What people filter by is what the journal says."""
    held: dict[str, object] = {name: getattr(state, name) for name in OF_HEAD}
    held["ended_at_us"] = state.ended_at_us if state.is_terminal else None
    if state.is_terminal:
        held["error_type"] = None if state.error is None else state.error.type
    for name, value in held.items():
        said = getattr(head, name)
        if said != value:
            report(f"the head says that {name} is {said}, and the journal {value}")


def _check_beside(world: World, state: RunState, report: Report) -> None:
    run_id, nodes = state.run_id, state.nodes
    if state.is_terminal and world.database.due_at_us(run_id) is not None:
        report(run_id, "stored timer", "a run that has ended has a timer")
    for ref, index in world.database.waits(run_id):
        if not ref.startswith("@") and (ref not in nodes or nodes[ref].status != "waiting"):
            report(run_id, "stored waits", f"{ref}/{index} is filed and does not wait")
        if state.is_terminal:
            report(run_id, "stored waits", f"{ref}/{index} is filed and the run has ended")
    for ref in world.database.inbox_nodes(run_id):
        if ref not in nodes or nodes[ref].status != "waiting":
            report(run_id, "stored inbox", f"{ref} is listed and does not wait")
    for ref, node in nodes.items():
        asks = node.status == "waiting" and node.waiting in {"approval", "interaction"}
        if asks and ref not in world.database.inbox_nodes(run_id):
            report(run_id, "stored inbox", f"{ref} waits for a person and is not listed")


def _check_messages(world: World, watcher: Watcher, state: RunState, report: Report) -> None:
    """Received = consumed + buffered + undelivered, and the receipts say so."""
    run_id, model = state.run_id, watcher.models[state.run_id]
    receipts = world.database.receipts(run_id)
    buffered = set(state.inbox)
    for message_id, disposition in receipts.items():
        was_received = message_id in model.received
        if disposition == "buffered" and message_id not in buffered:
            report(run_id, "messages", f"{message_id} is said to be buffered and is not")
        if message_id in buffered and disposition != "buffered":
            report(run_id, "messages", f"{message_id} is buffered and said to be {disposition or 'waiting'}")
        if disposition == "" and was_received:
            report(run_id, "messages", f"{message_id} was received and still waits")
        if disposition == "consumed" and not was_received and not message_id.startswith("event:"):
            report(run_id, "messages", f"{message_id} is said to be consumed and was never received")
    for message_id in sorted(model.received.keys() - receipts.keys()):
        report(run_id, "messages", f"{message_id} was received and never sent")


def check_promises(world: World, watcher: Watcher, known: Acknowledged, report: Report) -> None:
    """What senders were told has come true."""
    run_ids = set(world.database.run_ids())
    for number, run_id in known.runs.items():
        if run_id not in run_ids:
            report(run_id, "lost start", f"start {number} was acknowledged and there is no such run")
    for key, ids in known.by_key.items():
        if len({world.database.chain_of(run_id)[0] for run_id in ids}) > 1:
            report("", "start key", f"{key} gave {sorted(ids)}")
    for run_id, message_id in sorted(known.messages):
        if message_id not in world.database.receipts_of_chain(run_id):
            report(run_id, "lost message", f"{message_id} was acknowledged and is not there")
    for run_id, request_id in sorted(known.controls):
        found = world.database.request_in_chain(run_id, request_id)
        if found is None:
            report(run_id, "lost request", f"{request_id} was acknowledged and is not there")
            continue
        where, disposition = found
        if (disposition == "applied") != (request_id in watcher.models[where].controls):
            report(run_id, "controls", f"{request_id} is {disposition or 'waiting'}; the journal says otherwise")
    for tenant, event_id in sorted(known.events):
        if not world.database.has_event(tenant, event_id):
            report("", "lost event", f"{event_id} of {tenant} was acknowledged and is not there")


def check_ended(world: World, report: Report) -> None:
    """After everything was sent that could be waited for, no run is open, and nothing is left without an answer."""
    for run, state in open_runs(world):
        nodes = {ref: f"{state.nodes[ref].status} {state.nodes[ref].waiting or ''}" for ref in state.open_nodes}
        report(state.run_id, "liveness", f"the run is {run.head.status} and does not end: {nodes}")
    for run_id in world.database.run_ids():
        waiting = [key for key, disposition in world.database.dispositions(run_id).items() if not disposition]
        if waiting:
            report(run_id, "controls", f"requests without an answer: {waiting}")
        left = [key for key, disposition in world.database.receipts(run_id).items() if disposition in {"", "buffered"}]
        if left:
            report(run_id, "messages", f"the run has ended and messages are left: {left}")
