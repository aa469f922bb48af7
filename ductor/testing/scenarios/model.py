"""What a scenario file says, in normal form: durations are whole milliseconds, expressions are compiled."""

from typing import Final, Literal

import msgspec

from ductor.definitions.errors import DuctorError, Place, Problem
from ductor.definitions.expressions import Expression, Template
from ductor.definitions.policies import Part
from ductor.definitions.values import JsonObject, JsonValue

LIMIT_MS: Final = 400 * 24 * 3_600 * 1_000
"""How long a scenario may last in virtual time unless it says otherwise: a little over a year."""

ExpectedStatus = Literal["completed", "failed", "cancelled", "terminated", "running", "waiting", "paused", "pending"]
SendKind = Literal["signal", "event", "approve", "reject", "reply", "case", "control"]


class ScenarioFileError(DuctorError):
    """A scenario file can't be used; `problems` names everything that is wrong with it, in document order."""

    code = "invalid_scenario_file"

    def __init__(self, file: str, problems: tuple[Problem, ...]) -> None:
        self.file = file
        self.problems = problems
        count = len(problems)
        lines = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(f"{file} has {count} problem{'s' if count != 1 else ''}:{lines}")


class Raised(Part, frozen=True, kw_only=True):
    """The error that an answer raises. `message` and `details` are templates, compiled."""

    type: str
    message: Template
    details: Template
    retryable: bool = True
    retry_after_ms: int | None = None


class Answer(Part, frozen=True, kw_only=True):
    """One way in which a handler may answer: the first whose `when` holds does, after `takes_ms`."""

    place: Place
    when: Expression | None = None
    takes_ms: int = 0
    returns: Template | None = None
    raises: Raised | None = None


class Send(Part, frozen=True, kw_only=True):
    """Something sent `at_ms` after the start. `refused`: the engine must refuse it.

    Attributes:
        name: of the signal, event, step or control.
        request_id: its id; of an event, the event's.
        run: `definition#k`, the k-th run of a definition; None for the run of the scenario.
        from_steps, input: of a redrive.
        status, assignee, comment, groups, reason, payload: as the kind has them.
    """

    place: Place
    at_ms: int
    kind: SendKind
    name: str
    payload: JsonValue = None
    request_id: str | None = None
    by: str = ""
    comment: str | None = None
    groups: tuple[str, ...] = ()
    status: str | None = None
    assignee: str | None = None
    reason: str | None = None
    from_steps: tuple[str, ...] = ()
    input: JsonValue | msgspec.UnsetType = msgspec.UNSET
    run: str | None = None
    refused: bool = False


class ExpectedEvent(Part, frozen=True, kw_only=True):
    """An event that a run must have emitted; its payload is not compared where it is UNSET."""

    event: str
    payload: JsonValue | msgspec.UnsetType = msgspec.UNSET


class Expectation(Part, frozen=True, kw_only=True):
    """What must come out; what is UNSET is not compared.

    Attributes:
        error: the type of the run's error; None means that there is none.
        duration_ms: from the start to the end, in virtual time, exact.
        steps: status by ref.
        calls: by handler; a redelivery of the same attempt counts once.
        compensations: handlers of undos, in the order in which these began; retries are not counted.
        compensated: whether all that had been done was undone, or `partial`.
        emitted: all events that the run emitted, in order.
    """

    status: ExpectedStatus | msgspec.UnsetType = msgspec.UNSET
    output: JsonValue | msgspec.UnsetType = msgspec.UNSET
    error: str | None | msgspec.UnsetType = msgspec.UNSET
    duration_ms: int | msgspec.UnsetType = msgspec.UNSET
    steps: dict[str, str] = msgspec.field(default_factory=dict)
    calls: dict[str, int] = msgspec.field(default_factory=dict)
    context: JsonObject | msgspec.UnsetType = msgspec.UNSET
    compensations: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    compensated: bool | Literal["partial"] | msgspec.UnsetType = msgspec.UNSET
    emitted: tuple[ExpectedEvent, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_of_no_run(self) -> bool:
        """Whether it names nothing but calls."""
        return self == Expectation(calls=self.calls)


class Scenario(Part, frozen=True, kw_only=True):
    """One story: a run that is started, answered, sent to, and compared.

    Attributes:
        start: the definition; None where only triggers start something: then it lasts `limit_ms`.
        expect_runs: of other runs, by `definition#k`.
        handlers: answers by handler, before those of the file.
        limit_ms: virtual time after which it is stopped.
    """

    place: Place
    name: str
    start: str | None = None
    input: JsonValue = None
    key: str | None = None
    version: str | None = None
    handlers: dict[str, tuple[Answer, ...]] = msgspec.field(default_factory=dict)
    send: tuple[Send, ...] = ()
    expect: Expectation = Expectation()
    expect_runs: dict[str, Expectation] = msgspec.field(default_factory=dict)
    limit_ms: int = LIMIT_MS


class ScenarioFile(Part, frozen=True, kw_only=True):
    """A file of scenarios.

    Attributes:
        definitions: each a path relative to the file, or a whole definition.
        handlers: answers by handler.
    """

    file: str
    definitions: tuple[str | JsonObject, ...]
    handlers: dict[str, tuple[Answer, ...]]
    scenarios: tuple[Scenario, ...]
