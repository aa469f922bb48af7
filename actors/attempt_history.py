"""The attempts of a step, from a run's journal: what each was given, what came of it, when. Pure."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from ductor.definitions.values import JsonValue
from ductor.journal.codec import decode_events
from ductor.journal.events import AnyEvent, AttemptDispatched, AttemptFinished, ErrorInfo, NodeSettled, PayloadRef
from ductor.journal.recorded import RecordedRun


class AttemptRecord(msgspec.Struct, kw_only=True):
    """One attempt of a step.

    Attributes:
        generation: counts the step's attempts over all rounds, from 1; `attempt` within the round.
        dispatched_version: the row that dispatched it; `finished_version` the one that took its result in, 0 for none.
        outcome: empty as long as it has no result that counts; `abandoned` where the step went on without one.
        started_at_us, finished_at_us: as its worker tells; 0 as long as there is no result.
    """

    step: str
    generation: int
    attempt: int
    iteration: int
    task: str
    queue: str
    dispatched_version: int
    dispatched_at_us: int
    input: JsonValue = None
    outcome: Literal["", "succeeded", "failed", "cancelled", "abandoned"] = ""
    output: JsonValue = None
    error: ErrorInfo | None = None
    worker: str = ""
    started_at_us: int = 0
    finished_at_us: int = 0
    finished_version: int = 0


def attempts_of(run: RecordedRun, step: str) -> list[AttemptRecord]:
    """All attempts of a step, in order; none for a step without any.

    Raises:
        UnknownEventError: a row can't be read by this version of the software.
        KeyError: a large value that a row names is not there.
    """
    return [attempt for attempt in all_attempts(run) if attempt.step == step]


def all_attempts(run: RecordedRun) -> list[AttemptRecord]:
    """All attempts of all steps, in the order of their dispatch. Raises as `attempts_of`."""
    history = _AttemptHistory(run)
    for row in run.rows:
        history.take(row.version, row.at_us, decode_events(row.events, run_id=run.run_id, version=row.version))
    return history.attempts


class _AttemptHistory:
    """Attempts as the rows tell of them."""

    def __init__(self, run: RecordedRun) -> None:
        self._values = run.values()
        self._open: dict[str, AttemptRecord] = {}
        self._latest: dict[str, AttemptRecord] = {}
        self.attempts: list[AttemptRecord] = []

    def take(self, version: int, at_us: int, events: Sequence[AnyEvent]) -> None:
        """The next row."""
        for event in events:
            if isinstance(event, AttemptDispatched):
                self._dispatch(event, version, at_us)
            elif isinstance(event, AttemptFinished):
                self._finish(event, version)
            elif isinstance(event, NodeSettled):
                self._leave(event.node, version)

    def _dispatch(self, event: AttemptDispatched, version: int, at_us: int) -> None:
        before = self._latest.get(event.node)
        self._leave(event.node, version)
        is_retry = event.attempt > 1 and before is not None  # it runs with the input of the round's first attempt
        record = AttemptRecord(
            step=event.node,
            generation=event.generation,
            attempt=event.attempt,
            iteration=event.iteration,
            task=event.task,
            queue=event.queue,
            dispatched_version=version,
            dispatched_at_us=at_us,
            input=before.input if before is not None and is_retry else self._value(event.input, event.input_ref),
        )
        self._open[event.node] = self._latest[event.node] = record
        self.attempts.append(record)

    def _finish(self, event: AttemptFinished, version: int) -> None:
        record = self._open.get(event.node)
        if record is None or record.generation != event.generation:
            return  # no tick lets such a result into a row
        del self._open[event.node]
        record.outcome = event.outcome
        record.output = self._value(event.output, event.output_ref)
        record.error = event.error
        record.worker = event.worker
        record.started_at_us, record.finished_at_us = event.started_at_us, event.finished_at_us
        record.finished_version = version

    def _leave(self, node: str, version: int) -> None:
        record = self._open.pop(node, None)
        if record is not None:
            record.outcome, record.finished_version = "abandoned", version

    def _value(self, inline: JsonValue, ref: PayloadRef | None) -> JsonValue:
        return inline if ref is None else self._values[ref.hash]
