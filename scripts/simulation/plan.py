"""What a campaign does: definitions, starts, what is sent, and which faults strike when. A plan is a value.

It is made from a seed by `ductor`'s rules of what is possible, and shrunk by leaving parts of it out.
"""

from typing import Final, Literal

import msgspec

from ductor.definitions.values import JsonObject, JsonValue

FaultKind = Literal[
    "crash",
    "crash_before_commit",
    "crash_after_commit",
    "freeze",
    "restart",
    "wall_clock_jump",
    "clock_standstill",
    "database_away",
    "slow_commits",
    "slow_calls",
    "lost_commits",
    "lost_answers",
    "cut_calls",
    "late_rows",
    "lost_wakeups",
    "doubled_wakeups",
    "delayed_wakeups",
]
"""What strikes hosts, the network and the database.

A crash happens so many callbacks after its time, or around a commit; a frozen host is a zombie when it goes on. Lost
commits never reach the database, lost answers leave its commit durable and the host in the dark, cut calls fail before
or after they were carried out. Late rows have a place in the order before they can be seen.
"""

HandlerFault = Literal["slow", "failing", "refusing", "asking_to_wait", "stuck", "stopping_itself", "deaf", "bulky"]
"""What handlers do besides returning at once. A stuck one does not return until the faults are over; a deaf one goes on
when it is told to stop; a bulky one returns more than fits into an event."""

ActionKind = Literal[
    "signal",
    "event",
    "vote",
    "case",
    "reply",
    "cancel",
    "terminate",
    "pause",
    "resume",
    "redrive",
    "compensate",
    "continue_as_new",
    "compact",
    "wrong_tenant",
]

FAULT_KINDS: Final[tuple[FaultKind, ...]] = FaultKind.__args__  # type: ignore[attr-defined]
HANDLER_FAULTS: Final[tuple[HandlerFault, ...]] = HandlerFault.__args__  # type: ignore[attr-defined]
ACTION_KINDS: Final[tuple[ActionKind, ...]] = ActionKind.__args__  # type: ignore[attr-defined]

TENANTS: Final = ("north", "south")
SIGNALS: Final = ("go", "more")
EVENTS: Final = ("paid", "sent")
PEOPLE: Final = ("ada", "bo", "cy")


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault.

    Attributes:
        at_ms, for_ms: when it begins, and how long it lasts where it lasts.
        host: whom it strikes, from 1; 0 strikes everybody.
        rate: how often it strikes while it lasts, as a share of the chances it has.
        amount: of a crash: callbacks until it happens; of a jump of the clock: milliseconds.
    """

    kind: FaultKind
    at_ms: int
    for_ms: int = 0
    host: int = 0
    rate: float = 0.0
    amount: int = 0


class Start(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One start. `via` is the host it goes through, 0 a client that hosts nothing; `times` repeats it, with its key.

    `awaited_via` is the host through which somebody waits for the run's end; 0: nobody does.
    """

    at_ms: int
    definition: int
    tenant: str
    trigger: JsonObject
    key: str | None = None
    via: int = 0
    times: int = 1
    awaited_via: int = 0


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is sent. `run` is the number of a start; `times` repeats it under the same request id.

    `member` is which run of the tree that the start has become gets it, counted round from the root, which is 0.
    """

    kind: ActionKind
    at_ms: int
    run: int
    request_id: str
    member: int = 0
    via: int = 0
    times: int = 1
    name: str = ""
    by: str = ""
    payload: JsonValue = None


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How the hosts of a campaign are made: small, so that every limit is met.

    `compact_every_rows` is how much a journal grows until it is compacted; 0: not before somebody asks. `linger_ms` is
    how long a process lives on after its host has stopped.
    """

    count: int = 1
    concurrency: int = 8
    max_hot_runs: int = 100
    idle_ms: int = 5_000
    sweep_ms: int = 1_000
    compact_every_rows: int = 0
    heartbeat_ms: int = 5_000
    drain_ms: int = 3_000
    linger_ms: int = 10_000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole campaign. `quiet_at_ms` is when all faults are over.

    `schedule` distinguishes several ways to carry out one plan: another number, other turns and delays.
    """

    seed: int
    hosts: HostLimits
    quiet_at_ms: int
    definitions: tuple[JsonObject, ...]
    starts: tuple[Start, ...]
    actions: tuple[Action, ...]
    faults: tuple[Fault, ...]
    handler_faults: tuple[HandlerFault, ...] = HANDLER_FAULTS
    schedule: int = 0
