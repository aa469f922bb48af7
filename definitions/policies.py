"""The parts that several step types share: retry, timeouts, repeat, lease, compensation, messages sent.

All are frozen and in normal form: durations are whole milliseconds, lists are tuples. A field at its default is left
out of the manifest, so that a later version may add fields without changing a single hash.
"""

from typing import Annotated, Literal

import msgspec

from ductor.definitions.fields import Attempts, Cel, Count, DurationMs, LimitMs, Name, Share, TemplateText
from ductor.definitions.values import JsonValue


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of every piece of a definition."""


class Retry(Part, frozen=True, kw_only=True):
    """When and how often a failed attempt is tried again.

    The n-th retry waits `min(initial_ms * factor ** (n - 1), max_ms)`, spread by up to `jitter` of itself both ways;
    the spread is derived from ids, so that replay agrees.

    Attributes:
        max_attempts: attempts in all, the first one included; 1 means no retry.
        max_ms: the longest pause; where documents leave it out, `initial` if that is longer than a minute.
        jitter: a share between 0 and 1.
        only: error types that this policy is for; empty means all.
        exclude: error types that it is not for (`except` in documents).
    """

    max_attempts: Attempts = 1
    initial_ms: DurationMs = 1_000
    factor: Annotated[float, msgspec.Meta(ge=1, le=1_000)] = 2.0
    max_ms: DurationMs = 60_000
    jitter: Share = 0.2
    only: tuple[Name, ...] = ()
    exclude: tuple[Name, ...] = msgspec.field(default=(), name="except")


class Timeouts(Part, frozen=True, kw_only=True):
    """The four limits of work in a worker, in milliseconds; None means no limit.

    Attributes:
        attempt_ms: one attempt, from its start in the worker.
        start_ms: from dispatch until a worker starts it.
        total_ms: all attempts of one round together, from the first dispatch.
        heartbeat_ms: between two signs of life of the handler.
    """

    attempt_ms: LimitMs | None = None
    start_ms: LimitMs | None = None
    total_ms: LimitMs | None = None
    heartbeat_ms: LimitMs | None = None


class Repeat(Part, frozen=True, kw_only=True):
    """Run a step again until `until` (CEL) holds; each round is a new generation.

    Attributes:
        every_ms: pause between two rounds.
        max: rounds at most.
        on_max: `fail` the step or `continue` with the last output.
    """

    until: Cel
    every_ms: DurationMs = 0
    max: Count = 1_000
    on_max: Literal["fail", "continue"] = "fail"


class Lease(Part, frozen=True, kw_only=True):
    """At most `limit` holders of `key` (a template) at once. `timeout_ms` bounds the wait; None means no bound."""

    key: TemplateText
    limit: Count = 1
    timeout_ms: LimitMs | None = None


class Compensation(Part, frozen=True, kw_only=True):
    """The undo of a step: a task with its input (template), retry and timeouts, on the queue of the step where that has
    one; or `child`, the child run's own compensations."""

    task: Name | None = None
    input: JsonValue = msgspec.field(default_factory=dict)
    retry: tuple[Retry, ...] = ()
    timeout: Timeouts = Timeouts()
    child: bool = False


class EmittedEvent(Part, frozen=True, kw_only=True):
    """An event published on the tenant's bus with the tick that settles the step. `when` is CEL."""

    event: Name
    payload: JsonValue = None
    when: Cel | None = None


class SentSignal(Part, frozen=True, kw_only=True):
    """A signal sent to another run with the tick that settles the step. `run` and `payload` are templates."""

    run: TemplateText
    name: Name
    payload: JsonValue = None
