"""The runs that a tick starts, up to their first row, and what the coordinators that carry them on are told. Pure.

A run whose coordinator will be here decides its first steps before the commit that starts it, so that its first row has
them and needs no second one: a child run costs one row and one commit less, and begins a commit earlier. Only what
that row can say goes with it. A run that writes or tells anything else with its first tick, that ends in it, whose key
may turn out to be taken, or that continues another one begins with `run_started` alone, and decides for itself.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ductor.actors.messages import RunBegun
from ductor.actors.tick.compute import TickInputs, compute
from ductor.actors.tick.outbox import Outbox, StartedRun
from ductor.definitions.program import Program
from ductor.journal.chain import link
from ductor.journal.codec import decode_value, encode_events
from ductor.journal.commit import HeadStart, NewRun, Payload
from ductor.journal.fold import finish_row, fold_row
from ductor.journal.state import RunState


class StartingRun(msgspec.Struct, frozen=True):
    """A run that is started: what the commit writes of it, and what its coordinator is told once that is durable."""

    new_run: NewRun
    begun: RunBegun


def starting_runs(
    program: Program,
    library: Mapping[str, Program],
    outbox: Outbox | None,
    at_us: int,
    begins_here: Callable[[str], bool],
) -> list[StartingRun]:
    """The runs that a tick starts.

    Args:
        program: what the run carries out that starts them; library: what it may start, by manifest hash.
        at_us: when that tick began.
        begins_here: whether the coordinator of the run with this id will be on this host.
    """
    starting = []
    for run in () if outbox is None else outbox.started:
        carried_out = library.get(run.started.manifest_hash, program)
        if run.started.body:
            carried_out = carried_out.bodies[run.started.body]
        is_free = run.started.key is None and run.started.chain_run_id is None
        begun = _with_first_tick(run, carried_out, library, at_us) if is_free and begins_here(run.run_id) else None
        starting.append(begun or _bare(run, carried_out, library, at_us))
    return starting


def _with_first_tick(
    run: StartedRun, program: Program, library: Mapping[str, Program], at_us: int
) -> StartingRun | None:
    """The run with what it decides first; None where more follows from that than one row."""
    state = RunState(run_id=run.run_id)
    values = [(payload, decode_value(payload.text)) for payload in run.payloads]
    try:
        first = compute(program, state, TickInputs(started=run.started, payloads=values), at_us, library)
    except Exception:  # noqa: BLE001 - its own coordinator meets it again, and is the one that dies of it
        return None
    if first.outbox is not None or state.is_terminal:
        return None
    events = encode_events(first.events)
    finish_row(state, link(b"", run.run_id, 1, at_us, events))
    return StartingRun(_new_run(run, state, events, first.payloads), RunBegun(state, program, library, first))


def _bare(run: StartedRun, program: Program, library: Mapping[str, Program], at_us: int) -> StartingRun:
    """The run with nothing decided yet."""
    state = RunState(run_id=run.run_id)
    events = encode_events([run.started])
    fold_row(state, 1, at_us, link(b"", run.run_id, 1, at_us, events), [run.started])
    state.payloads.update((payload.hash, decode_value(payload.text)) for payload in run.payloads)
    return StartingRun(_new_run(run, state, events, run.payloads), RunBegun(state, program, library))


def _new_run(run: StartedRun, state: RunState, events: bytes, payloads: Sequence[Payload]) -> NewRun:
    """The run as its first row leaves it."""
    started = run.started
    return NewRun(
        run_id=run.run_id,
        at_us=state.at_us,
        events=events,
        hash=state.last_hash,
        start=HeadStart(
            tenant=started.tenant,
            definition=started.definition,
            manifest_hash=started.manifest_hash,
            status=state.status,
            started_at_us=state.at_us,
            key=started.key,
            parent_run_id=started.parent_run_id,
            parent_node=started.parent_node,
            root_run_id=started.root_run_id,
            chain_run_id=started.chain_run_id,
            iteration=started.iteration,
            search_attributes=started.search_attributes,
        ),
        payloads=tuple(payloads),
        due_at_us=state.next_due_us,
    )
