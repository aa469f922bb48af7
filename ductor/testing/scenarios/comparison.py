"""What differed between what a scenario expects and what came of it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ductor.actors.views import RunView
from ductor.definitions.durations import format_duration_ms
from ductor.definitions.values import JsonValue
from ductor.journal.events import Compensated
from ductor.testing.calls import Call
from ductor.testing.scenarios.model import Expectation, ExpectedEvent, Scenario
from ductor.testing.scenarios.played import EmittedEvent, Played, PlayedRun


class Difference(msgspec.Struct, frozen=True):
    """One thing that differed. `expected` is empty for what should not have happened at all."""

    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        """One line for a person."""
        return f"{self.what}: expected {self.expected}, found {self.found}" if self.expected else self.found


COMPENSATED: Final[dict[Compensated, bool | str]] = {"": False, "true": True, "partial": "partial"}
"""What scenarios say of the outcome of undos."""


def differences(scenario: Scenario, played: Played) -> list[Difference]:
    """Everything that differed; what the scenario does not name is not compared."""
    found = [Difference("mistake", "", mistake) for mistake in played.mistakes]
    if played.refusal is not None:
        found.append(Difference("start", "a run", f"a refusal: {played.refusal}"))
        return found
    if played.root is not None:
        found.extend(_of_the_run(scenario.expect, played.root))
    found.extend(_of_the_calls(scenario.expect, played.calls))
    for label, expect in scenario.expect_runs.items():
        run = played.runs.get(label)
        if run is None:
            found.append(Difference(f"run {label}", "a run", "none"))
            continue
        of_run = [call for call in played.calls if call.run_id == run.view.run_id]
        found.extend(
            msgspec.structs.replace(difference, what=f"run {label}: {difference.what}")
            for difference in (*_of_the_run(expect, run), *_of_the_calls(expect, of_run))
        )
    return found


def _of_the_run(expect: Expectation, run: PlayedRun) -> Iterator[Difference]:
    view = run.view
    error = view.error.type if view.error is not None else None
    if expect.status is not msgspec.UNSET and expect.status != view.status:
        yield Difference("status", expect.status, f"{view.status} ({error})" if error else view.status)
    if expect.error is not msgspec.UNSET and expect.error != error:
        message = f" ({view.error.message})" if view.error is not None and view.error.message else ""
        yield Difference("error", str(expect.error or "none"), f"{error or 'none'}{message}")
    if expect.output is not msgspec.UNSET and not _equal(expect.output, view.output):
        yield Difference("output", _json(expect.output), _json(view.output))
    if expect.context is not msgspec.UNSET and not _equal(expect.context, view.context):
        yield Difference("context", _json(expect.context), _json(view.context))
    if expect.duration_ms is not msgspec.UNSET:
        ended_at_us = view.ended_at_us or view.updated_at_us
        duration_ms = (ended_at_us - run.history[0].at_us) // 1_000
        if duration_ms != expect.duration_ms:
            yield Difference("duration", format_duration_ms(expect.duration_ms), format_duration_ms(duration_ms))
    if expect.compensations is not msgspec.UNSET and expect.compensations != run.compensations:
        found = ", ".join(run.compensations) or "none"
        yield Difference("compensations", ", ".join(expect.compensations) or "none", found)
    if expect.compensated is not msgspec.UNSET and expect.compensated != COMPENSATED[view.compensated]:
        yield Difference("compensated", _json(expect.compensated), _json(COMPENSATED[view.compensated]))
    if expect.emitted is not msgspec.UNSET:
        yield from _of_the_events(expect.emitted, run.emitted)
    yield from _of_the_steps(expect, view)


def _of_the_events(expected: Sequence[ExpectedEvent], emitted: Sequence[EmittedEvent]) -> Iterator[Difference]:
    names = [event.name for event in emitted]
    if [event.event for event in expected] != names:
        yield Difference("emitted", ", ".join(event.event for event in expected) or "none", ", ".join(names) or "none")
        return
    for wanted, found in zip(expected, emitted, strict=True):
        if wanted.payload is not msgspec.UNSET and not _equal(wanted.payload, found.payload):
            yield Difference(f"payload of emitted {found.name}", _json(wanted.payload), _json(found.payload))


def _of_the_steps(expect: Expectation, view: RunView) -> Iterator[Difference]:
    found = {step.ref: step.status for step in view.steps}
    for ref, status in expect.steps.items():
        if ref not in found:
            yield Difference(f"step {ref}", status, "no such step")
        elif found[ref] != status:
            yield Difference(f"step {ref}", status, found[ref])


def _of_the_calls(expect: Expectation, calls: Sequence[Call]) -> Iterator[Difference]:
    counts = Counter(call.task for call in calls)
    for name, count in expect.calls.items():
        if counts[name] != count:
            yield Difference(f"calls of {name}", str(count), str(counts[name]))


def _equal(expected: JsonValue, found: JsonValue) -> bool:
    """JSON equality: 1 and 1.0 are one number, true is no number."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(_equal(value, found[key]) for key, value in expected.items())
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_equal, expected, found))
    return isinstance(expected, bool) == isinstance(found, bool) and expected == found


def _json(value: JsonValue) -> str:
    return msgspec.json.encode(value).decode()
