"""What all fifteen step types have in common."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec

from ductor.definitions.fields import Cel, Count, LimitMs, Name, Ref, Title
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


class FieldProblem(msgspec.Struct, frozen=True):
    """What a step finds wrong with its own fields. `path` is relative to the step, in the words of documents."""

    code: str
    path: str
    message: str
    hint: str = ""


class Step(Part, tag_field="type", frozen=True, kw_only=True):
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
        checkpoint: a name under which others may wait for this step to succeed.
    """

    outcomes: ClassVar[tuple[str, ...]] = ("success", "error")
    runs_in: ClassVar[RunsIn]
    type_name: ClassVar[str]

    ref: Ref
    name: Title = ""
    run_if: Cel | None = None
    on_skip: Literal["continue", "stop"] = "continue"
    join: Literal["all", "every", "any"] | Count = "all"
    cancel_rest: bool = False
    cancels: tuple[Ref, ...] = ()
    on_error: Literal["fail", "continue"] = "fail"
    effects: JsonObject = msgspec.field(default_factory=dict)
    emit: tuple[EmittedEvent, ...] = ()
    signal: tuple[SentSignal, ...] = ()
    compensate: Compensation | None = None
    lease: Lease | None = None
    tags: tuple[Name, ...] = ()
    checkpoint: Name | None = None

    @property
    def may_lead_on_after_error(self) -> bool:
        """Whether there are failures that do not end the run, so that `error` edges have a meaning."""
        return self.on_error == "continue"

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Every field that holds CEL, in a fixed order. Step types add theirs to these."""
        if self.run_if is not None:
            yield CompiledField("run_if", "expression", self.run_if)
        for key, value in self.effects.items():
            yield CompiledField(f"effects.{key}", "template", value, own=True)
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

    def field_problems(self) -> Iterator[FieldProblem]:
        """What is wrong with the fields of this step alone. Step types add their checks to these."""
        if self.on_skip == "stop" and self.run_if is None:
            yield FieldProblem("on_skip_without_run_if", "on_skip", "`on_skip` has no effect without `run_if`")
        if self.ref in self.cancels:
            yield FieldProblem("cancels_itself", "cancels", f"step `{self.ref}` cancels itself")
        undo = self.compensate
        if undo is not None:
            yield from _worker_problems("compensate.", undo.retry, undo.timeout)
        if undo is not None and undo.child == (undo.task is not None):
            yield FieldProblem(
                "compensate_needs_one", "compensate", "`compensate` needs exactly one of `task` and `child: true`"
            )
        elif undo is not None and undo.child and self.runs_in != "child":
            message = f"a `{self.type_name}` has no child whose compensations could run"
            yield FieldProblem("compensate_without_child", "compensate", message, "Name a `task`.")
        elif undo is not None and undo.child and undo != Compensation(child=True):
            message = "with `child: true` the child undoes itself: `input`, `retry` and `timeout` belong to a `task`"
            yield FieldProblem("compensate_child_alone", "compensate", message)


class WorkerStep(Step, frozen=True, kw_only=True):
    """A step whose attempts run in workers."""

    runs_in: ClassVar[RunsIn] = "worker"

    retry: tuple[Retry, ...] = ()
    timeout: Timeouts = Timeouts()
    queue: Name = "default"
    priority: Annotated[int, msgspec.Meta(ge=-100, le=100)] = 0
    credential: Name | None = None
    repeat: Repeat | None = None

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `repeat.until`."""
        yield from super().compiled_fields()
        if self.repeat is not None:
            yield CompiledField("repeat.until", "expression", self.repeat.until, own=True)

    def field_problems(self) -> Iterator[FieldProblem]:
        """Adds the checks of `retry` and `timeout`."""
        yield from super().field_problems()
        yield from _worker_problems("", self.retry, self.timeout)


def _worker_problems(prefix: str, retry: tuple[Retry, ...], timeout: Timeouts) -> Iterator[FieldProblem]:
    for index, policy in enumerate(retry):
        yield from _retry_problems(f"{prefix}retry[{index}]", policy, last=index == len(retry) - 1)
    total_ms, attempt_ms = timeout.total_ms, timeout.attempt_ms
    if total_ms is not None and attempt_ms is not None and attempt_ms > total_ms:
        message = "one attempt may take longer than all attempts together (`total`)"
        yield FieldProblem("timeout_order", f"{prefix}timeout.attempt", message)


def _retry_problems(path: str, policy: Retry, *, last: bool) -> Iterator[FieldProblem]:
    if policy.max_ms < policy.initial_ms:
        yield FieldProblem("retry_order", f"{path}.max", "`max` is shorter than `initial`")
    both = sorted(set(policy.only) & set(policy.exclude))
    if both:
        yield FieldProblem("retry_contradiction", f"{path}.except", f"`{both[0]}` is in `only` and in `except`")
    if not policy.only and not policy.exclude and not last:
        yield FieldProblem(
            "retry_unreachable", path, "this policy fits every error, so those after it are never used", "Put it last."
        )


class ParkedStep(Step, frozen=True, kw_only=True):
    """A step that parks the run until the outside world or a timer acts.

    Attributes:
        timeout_ms: how long it waits; None waits for ever.
        on_timeout: what a timeout does where there is no `timeout` edge: `fail` the step, or `skip` it, as a false
            `run_if` does. Step types narrow or widen the choice.
    """

    outcomes: ClassVar[tuple[str, ...]] = ("success", "timeout", "error")
    runs_in: ClassVar[RunsIn] = "parked"

    timeout_ms: LimitMs | None = None
    on_timeout: Literal["fail", "skip", "approve"] = "fail"
