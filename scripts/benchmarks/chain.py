"""The workflow that is measured: a chain of no-op steps, as a definition, as a program, and as a run driven by hand."""

import uuid
from collections.abc import Iterator

import msgspec

from ductor.actors.tick.compute import TickInputs, compute
from ductor.actors.tick.payload import TickPayload
from ductor.definitions.compile import Compiled, compile_text
from ductor.definitions.program import Program, load_program
from ductor.definitions.values import JsonObject
from ductor.journal.chain import link
from ductor.journal.codec import encode_events
from ductor.journal.events import AttemptFinished, RunStarted
from ductor.journal.fold import finish_row
from ductor.journal.records import Transition
from ductor.journal.state import RunState

TASK = "bench.noop"
TRIGGER: JsonObject = {"sku": "ABC-123"}
OUTPUT: JsonObject = {"n": 0, "sku": "ABC-123", "ok": True}
RUN_ID = "01900000-0000-7000-8000-000000000000"
BEGAN_AT_US = 1_800_000_000_000_000
STEP_US = 1_000
NO_COMMIT = uuid.UUID(int=0)


def chain_name(steps: int) -> str:
    """Name of the definition."""
    return f"chain_{steps}"


def compiled_chain(steps: int) -> Compiled:
    """A definition of `steps` tasks, one after the other; each gets a value of the trigger."""
    document = {
        "ductor": 1,
        "name": chain_name(steps),
        "steps": [
            {
                "ref": f"s{number}",
                "type": "task",
                "task": TASK,
                "input": {"n": 0, "sku": "${trigger.sku}", "ok": True},
                **({"next": f"s{number + 1}"} if number < steps else {}),
            }
            for number in range(1, steps + 1)
        ],
    }
    text = msgspec.json.encode(document).decode()
    (compiled,) = compile_text(text, file=f"{chain_name(steps)}.json")
    return compiled


def chain_program(steps: int) -> Program:
    """The same, ready for ticks."""
    compiled = compiled_chain(steps)
    return load_program(compiled.manifest, places=compiled.places)


def first_tick(program: Program, state: RunState) -> TickPayload:
    """Start a run."""
    started = RunStarted(
        tenant="default",
        definition=program.manifest.name,
        manifest_hash=program.manifest_hash,
        entrypoints=program.entrypoints,
        trigger=TRIGGER,
    )
    return compute(program, state, TickInputs(started=started), BEGAN_AT_US)


def next_tick(program: Program, state: RunState, ref: str) -> TickPayload:
    """The attempt of `ref` has succeeded."""
    now_us = state.at_us + STEP_US
    finished = AttemptFinished(
        node=ref,
        generation=1,
        outcome="succeeded",
        output=OUTPUT,
        worker="bench",
        started_at_us=state.at_us,
        finished_at_us=now_us,
    )
    return compute(program, state, TickInputs(results=[finished]), now_us)


def sealed_row(state: RunState, payload: TickPayload) -> Transition:
    """What follows a tick before its commit: the events as text, their hash, the end of the row."""
    text = encode_events(payload.events)
    digest = link(state.last_hash, state.run_id, state.version, state.at_us, text)
    finish_row(state, digest)
    return Transition(
        run_id=state.run_id, version=state.version, commit_id=NO_COMMIT, at_us=state.at_us, events=text, hash=digest
    )


def whole_run(program: Program) -> Iterator[Transition]:
    """The journal of one run from its start to its end."""
    state = RunState(run_id=RUN_ID)
    payload = first_tick(program, state)
    yield sealed_row(state, payload)
    while not state.is_terminal:
        (ref,) = payload.dispatched
        payload = next_tick(program, state, ref)
        yield sealed_row(state, payload)
