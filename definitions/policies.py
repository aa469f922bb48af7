"""The parts that several step types share: retry, timeouts, repeat, lease, compensation, messages sent.

All are frozen and in normal form: durations are whole milliseconds, lists are tuples. A field at its default is left
out of the manifest, so that a later version may add fields without changing a single hash.
"""

import msgspec

from ductor.definitions.values import JsonValue


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of every piece of a definition."""


class Retry(Part):
    """When and how often a failed attempt is tried again.

    The n-th retry waits `min(initial_ms * factor ** (n - 1), max_ms)`, spread by up to `jitter` of itself both ways;
    the spread is derived from ids, so that replay agrees.

    Attributes:
        max_attempts: attempts in all, the first one included; 1 means no retry.
        jitter: a share between 0 and 1.
        only: error types that this policy is for; empty means all.
        exclude: error types that it is not for (`except` in documents).
    """

    max_attempts: int = 1
    initial_ms: int = 1_000
    factor: float = 2.0
    max_ms: int = 60_000
    jitter: float = 0.2
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = msgspec.field(default=(), name="except")


class Timeouts(Part):
    """The four limits of work in a worker, in milliseconds; None means no limit.

    Attributes:
        attempt_ms: one attempt, from its start in the worker.
        start_ms: from dispatch until a worker starts it.
        total_ms: all attempts of one round together, from the first dispatch.
        heartbeat_ms: between two signs of life of the handler.
    """

    attempt_ms: int | None = None
    start_ms: int | None = None
    total_ms: int | None = None
    heartbeat_ms: int | None = None


class Repeat(Part):
    """Run a step again until `until` (CEL) holds; each round is a new generation.

    Attributes:
        every_ms: pause between two rounds.
        max: rounds at most.
        on_max: `fail` the step or `continue` with the last output.
    """

    until: str
    every_ms: int = 0
    max: int = 1_000
    on_max: str = "fail"


class Lease(Part):
    """At most `limit` holders of `key` (a template) at once. `timeout_ms` bounds the wait; None means no bound."""

    key: str
    limit: int = 1
    timeout_ms: int | None = None


class Compensation(Part):
    """The undo of a step: a task with its input (template) and retry; or `child`, the child run's own compensations."""

    task: str | None = None
    input: JsonValue = msgspec.field(default_factory=dict)
    retry: tuple[Retry, ...] = ()
    child: bool = False


class EmittedEvent(Part):
    """An event published on the tenant's bus with the tick that settles the step. `when` is CEL."""

    event: str
    payload: JsonValue = None
    when: str | None = None


class SentSignal(Part):
    """A signal sent to another run with the tick that settles the step. `run` and `payload` are templates."""

    run: str
    name: str
    payload: JsonValue = None
