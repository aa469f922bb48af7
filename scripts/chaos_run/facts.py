"""What the journal of one run says happened, and whether it fits together. Values in, values out."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from ductor.actors.views import outcome_of
from ductor.definitions.values import JsonValue
from ductor.journal.codec import decode_events
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ChildStarted,
    MessageReceived,
    MessageTaken,
    NodeSettled,
)
from ductor.journal.recorded import RecordedRun
from ductor.journal.records import Head
from ductor.journal.replay import state_at
from ductor.projections.rows import step_name


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    Attributes:
        dispatched, finished, succeeded: tokens of attempts, each as often as the journal has it.
        received, taken: ids of messages, likewise.
        children: run ids, likewise.
        settled: by step and status.
    """

    head: Head
    version: int
    output: JsonValue
    dispatched: Counter[str]
    finished: Counter[str]
    succeeded: Counter[str]
    received: Counter[str]
    taken: Counter[str]
    children: Counter[str]
    settled: Counter[tuple[str, str]]


def facts_of(run: RecordedRun) -> RunFacts:
    """What there is in its rows. Raises UnknownEventError."""
    events = [event for row in run.rows for event in decode_events(row.events, run_id=run.run_id, version=row.version)]
    finished = [event for event in events if isinstance(event, AttemptFinished)]
    return RunFacts(
        head=run.head,
        version=run.rows[-1].version,
        output=outcome_of(state_at(run.run_id, run.rows)).output,
        dispatched=Counter(_token(run.run_id, event) for event in events if isinstance(event, AttemptDispatched)),
        finished=Counter(_token(run.run_id, event) for event in finished),
        succeeded=Counter(_token(run.run_id, event) for event in finished if event.outcome == "succeeded"),
        received=Counter(event.message.id for event in events if isinstance(event, MessageReceived)),
        taken=Counter(event.message_id for event in events if isinstance(event, MessageTaken)),
        children=Counter(event.run_id for event in events if isinstance(event, ChildStarted)),
        settled=_settled(events),
    )


def attempt_problems(facts: RunFacts, executions: Counter[str], effects: Counter[str]) -> list[str]:
    """What does not fit between the attempts of a run that has ended and what handlers noted."""
    problems = [f"attempt {token} was dispatched {times} times" for token, times in _repeated(facts.dispatched)]
    problems += [f"attempt {token} finished {times} times" for token, times in _repeated(facts.finished)]
    problems += [f"attempt {token} finished and was never dispatched" for token in facts.finished - facts.dispatched]
    problems += [f"attempt {token} was dispatched and never finished" for token in facts.dispatched - facts.finished]
    problems += [
        f"attempt {token} finished and nobody executed it" for token in facts.finished if not executions[token]
    ]
    problems += [f"attempt {token} succeeded without an effect" for token in facts.succeeded if not effects[token]]
    return problems


def message_problems(facts: RunFacts) -> list[str]:
    """What a run heard twice."""
    problems = [f"message {id} was taken up {times} times" for id, times in _repeated(facts.received)]
    return problems + [f"message {id} was consumed {times} times" for id, times in _repeated(facts.taken)]


def _token(run_id: str, event: AttemptDispatched | AttemptFinished) -> str:
    return f"{run_id}/{event.node}/{event.generation}"


def _repeated(counts: Counter[str]) -> list[tuple[str, int]]:
    return [(name, times) for name, times in counts.items() if times > 1]


def _settled(events: Sequence[AnyEvent]) -> Counter[tuple[str, str]]:
    return Counter((step_name(event.node), event.status) for event in events if isinstance(event, NodeSettled))
