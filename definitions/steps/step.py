"""What all fifteen step types have in common."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import msgspec

from ductor.definitions.policies import Compensation, EmittedEvent, Lease, Part, Repeat, Retry, SentSignal, Timeouts
from ductor.definitions.values import JsonObject, JsonValue

RunsIn = Literal["worker", "tick", "parked", "child"]


class CompiledField(msgspec.Struct, frozen=True):
    """A field that holds CEL: where it stands in the step, and what.

    Attributes:
        path: as `rules[0].when`; the key under which the compiled form is found.
        kind: `expression` for bare CEL, `template` for a value with `${...}` inside.
        own: whether the step's own `output`, `error`, `iteration`, `previous` are visible.
        extra: names visible besides those every expression sees, as `event`.
    """

    path: str
    kind: Literal["expression", "template"]
    value: JsonValue
    own: bool = False
    extra: tuple[str, ...] = ()


class Step(Part, tag_field="type"):
    """Base of the step types. Edges are not here: a manifest holds them in one sorted list.

    Attributes:
        ref: unique in its definition.
        name: for people.
        run_if: CEL guard; when false the step is skipped.
        on_skip: `continue` takes `success` and `done` edges of a step skipped by its guard, `stop` leaves them.
        join: `all`, `every`, `any`, or k: how many incoming edges must be taken.
        cancel_rest: when this join becomes runnable, withdraw the unsettled steps that lead to it.
        cancels: steps to cancel when this one succeeds.
        on_error: `fail` the run or `continue`.
        effects: patch of top-level context keys, a template each.
    """

    outcomes: ClassVar[tuple[str, ...]] = ("success", "error")
    runs_in: ClassVar[RunsIn]
    type_name: ClassVar[str]

    ref: str
    name: str = ""
    run_if: str | None = None
    on_skip: str = "continue"
    join: str | int = "all"
    cancel_rest: bool = False
    cancels: tuple[str, ...] = ()
    on_error: str = "fail"
    effects: JsonObject = msgspec.field(default_factory=dict)
    emit: tuple[EmittedEvent, ...] = ()
    signal: tuple[SentSignal, ...] = ()
    compensate: Compensation | None = None
    lease: Lease | None = None
    tags: tuple[str, ...] = ()
    checkpoint: str | None = None

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Every field that holds CEL, in a fixed order. Step types add theirs to these."""
        if self.run_if is not None:
            yield CompiledField("run_if", "expression", self.run_if)
        if self.effects:
            yield CompiledField("effects", "template", self.effects, own=True)
        for index, emitted in enumerate(self.emit):
            yield CompiledField(f"emit[{index}].payload", "template", emitted.payload, own=True)
            if emitted.when is not None:
                yield CompiledField(f"emit[{index}].when", "expression", emitted.when, own=True)
        for index, sent in enumerate(self.signal):
            yield CompiledField(f"signal[{index}].run", "template", sent.run, own=True)
            yield CompiledField(f"signal[{index}].payload", "template", sent.payload, own=True)
        if self.compensate is not None:
            yield CompiledField("compensate.input", "template", self.compensate.input, own=True)
        if self.lease is not None:
            yield CompiledField("lease.key", "template", self.lease.key)


class WorkerStep(Step):
    """A step whose attempts run in workers."""

    runs_in: ClassVar[RunsIn] = "worker"

    retry: tuple[Retry, ...] = ()
    timeout: Timeouts = Timeouts()
    queue: str = "default"
    priority: int = 0
    credential: str | None = None
    repeat: Repeat | None = None

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `repeat.until`."""
        yield from super().compiled_fields()
        if self.repeat is not None:
            yield CompiledField("repeat.until", "expression", self.repeat.until, own=True)


class ParkedStep(Step):
    """A step that parks the run until the outside world or a timer acts.

    Attributes:
        timeout_ms: how long it waits; None waits for ever.
        on_timeout: what a timeout does where there is no `timeout` edge.
    """

    outcomes: ClassVar[tuple[str, ...]] = ("success", "timeout", "error")
    runs_in: ClassVar[RunsIn] = "parked"

    timeout_ms: int | None = None
    on_timeout: str = "fail"
