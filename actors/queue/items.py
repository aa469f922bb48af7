"""What travels through a distributed queue, as values.

An item is work for somebody in another process: an attempt for a worker, or a wakeup for the host that owns a run. It
is named by its token, and a tier holds a token once, whatever its state:

    enqueue -> queued -> leased -> (acknowledged: gone)
                 ^         |
                 |         +- lease ran out, fewer than MAX_DELIVERIES: queued again, at its old place
                 |         +- returned: queued again, and the delivery does not count
                 |         +- lease ran out, MAX_DELIVERIES reached: set aside -> replayed (queued) or dropped (gone)
                 +--------------------------------------------------------------+
"""

from typing import Final, Literal

import msgspec

from ductor.actors.messages import Assignment
from ductor.actors.queue.errors import QueueItemRefusedError
from ductor.journal.codec import MAX_INLINE_BYTES, MAX_KEY_BYTES
from ductor.journal.events import PayloadRef

MAX_ITEM_BYTES: Final = MAX_INLINE_BYTES + 16 * 1024
"""An item's work as JSON text. An input too large to stand in the journal inline travels as a reference."""
MAX_TOKEN_BYTES: Final = 512
MAX_PRIORITY: Final = 100
"""Priorities lie between minus this and this, as in definitions."""
MAX_WEIGHT: Final = 1_000
MAX_BURST: Final = 1_000_000
SYSTEM_PREFIX: Final = "system/"
"""Queues of wakeups begin with it; no queue of tasks may."""

TokenState = Literal["queued", "leased", "dead"]
"""How a tier holds a token: it waits, somebody has it, or it was set aside as poisoned."""
EnqueueOutcome = Literal["enqueued", "held", "refused"]
"""`held`: the tier has the token already, and drops the item. `refused`: the queue is full, nothing was stored."""


class TaskWork(msgspec.Struct, frozen=True, tag="task", gc=False):
    """An attempt to execute. With `input_ref` the assignment's input is null, and the payload has it."""

    assignment: Assignment
    input_ref: PayloadRef | None = None


class WakeupWork(msgspec.Struct, frozen=True, tag="wakeup", gc=False):
    """Tell the run's coordinator to look at the database. Redundant ones are harmless: they make an empty tick."""

    run_id: str
    reissues: bool = True


Work = TaskWork | WakeupWork

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Work).decode


class QueueItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One item.

    Attributes:
        token: its name within the queue.
        queue: who may lease it: workers ask for their queues by name.
        tenant: whose lane it stands in.
        priority: within the lane the highest goes first, -100 to 100.
        body: the work as JSON text; see `task_item`, `wakeup_item` and `work`.
    """

    token: str
    queue: str
    tenant: str
    priority: int = 0
    body: bytes = b"null"

    def work(self) -> Work:
        """The work that the body tells. Raises QueueItemRefusedError for what this version can't read."""
        try:
            return _decode(self.body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise QueueItemRefusedError(self.token, "body", f"is not readable by this version: {error}") from error


def task_item(assignment: Assignment, input_ref: PayloadRef | None = None) -> QueueItem:
    """The item for an attempt. Raises QueueItemRefusedError, also for a large input without its reference."""
    if input_ref is not None:
        assignment = msgspec.structs.replace(assignment, input=None)
    if assignment.queue.startswith(SYSTEM_PREFIX):
        raise QueueItemRefusedError(assignment.token, "queue", f"begins with {SYSTEM_PREFIX!r}, which is for wakeups")
    return checked_item(
        QueueItem(
            token=assignment.token,
            queue=assignment.queue,
            tenant=assignment.tenant,
            priority=assignment.priority,
            body=_encode(TaskWork(assignment, input_ref)),
        )
    )


def system_queue(owner: str) -> str:
    """The queue of wakeups for one owner of partitions. Leased before queues of tasks, it outranks them."""
    return f"{SYSTEM_PREFIX}{owner}"


def wakeup_item(run_id: str, tenant: str, owner: str, unique: str, *, reissues: bool = True) -> QueueItem:
    """The item that wakes a run at its owner.

    `unique` tells this wakeup from all others of the run: one that comes while another is being handled must not be
    taken for the same.
    """
    return checked_item(
        QueueItem(
            token=f"{run_id}/wakeup/{unique}",
            queue=system_queue(owner),
            tenant=tenant,
            body=_encode(WakeupWork(run_id, reissues)),
        )
    )


def checked_item(item: QueueItem) -> QueueItem:
    """The item itself, if every tier can hold it. Raises QueueItemRefusedError."""
    for field, text, limit in (
        ("token", item.token, MAX_TOKEN_BYTES),
        ("queue", item.queue, MAX_KEY_BYTES),
        ("tenant", item.tenant, MAX_KEY_BYTES),
    ):
        _check_text(item.token, field, text, limit)
    if not -MAX_PRIORITY <= item.priority <= MAX_PRIORITY:
        raise QueueItemRefusedError(item.token, "priority", f"is not between -{MAX_PRIORITY} and {MAX_PRIORITY}")
    if len(item.body) > MAX_ITEM_BYTES:
        reason = f"has {len(item.body)} bytes, and the limit is {MAX_ITEM_BYTES}; hand a large input over by reference"
        raise QueueItemRefusedError(item.token, "body", reason)
    return item


def _check_text(token: str, field: str, text: str, limit_bytes: int) -> None:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise QueueItemRefusedError(token, field, "is not valid Unicode") from error
    if not text or "\x00" in text or size_bytes > limit_bytes:
        raise QueueItemRefusedError(token, field, f"is empty, has a NUL, or is longer than {limit_bytes} bytes")


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An item in somebody's hands.

    Attributes:
        receipt: names this delivery; a later delivery of the same token has another.
        delivery: how often the item was handed out, this time included; returned ones don't count.
        tier: which tier holds it.
    """

    item: QueueItem
    receipt: int
    delivery: int
    tier: str


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An item that was set aside after MAX_DELIVERIES. `dead_at_us` is by the tier's clock."""

    item: QueueItem
    deliveries: int
    dead_at_us: int
    tier: str


class LanePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """How one tenant is served by one queue.

    Attributes:
        weight: its share among the tenants that have items, 1 to 1,000.
        max_in_flight: leases at once; None means no cap.
        rate_per_s, burst: a token bucket of deliveries; None means no limit.
    """

    weight: int = 1
    max_in_flight: int | None = None
    rate_per_s: float | None = None
    burst: int = 1

    def __post_init__(self) -> None:
        is_rate_bad = self.rate_per_s is not None and not 0.001 <= self.rate_per_s <= 1e6
        is_cap_bad = self.max_in_flight is not None and self.max_in_flight < 1
        if is_rate_bad or is_cap_bad or not 1 <= self.weight <= MAX_WEIGHT or not 1 <= self.burst <= MAX_BURST:
            raise ValueError(
                f"{self} is out of bounds: weight 1 to {MAX_WEIGHT}, caps and burst from 1, rate 0.001 to 1e6"
            )


class QueuePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Bounds of one queue: items that wait for delivery, and leases at once (None: no cap)."""

    max_queued: int = 1_000_000
    max_in_flight: int | None = None

    def __post_init__(self) -> None:
        if self.max_queued < 1 or (self.max_in_flight is not None and self.max_in_flight < 1):
            raise ValueError(f"{self} is out of bounds: both caps from 1")


class LaneDepth(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One tenant's lane. `oldest_age_ms` is how long the oldest item that waits was enqueued ago, 0 without any."""

    tenant: str
    queued: int
    in_flight: int
    oldest_age_ms: int


class QueueDepth(msgspec.Struct, frozen=True, kw_only=True):
    """One queue. `lanes` are those with items, by tenant, MAX_LANES_LISTED at most; the sums count all."""

    queue: str
    queued: int
    in_flight: int
    dead: int
    lanes: tuple[LaneDepth, ...]


class QueueHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a tier serves, and if not, why. `epoch` changes when the tier may have lost what it held."""

    tier: str
    is_available: bool
    reason: str = ""
    epoch: str = ""


class QueueDisturbance(msgspec.Struct, frozen=True, kw_only=True):
    """A tier may have lost items, or can't serve those that it has: owners enqueue what they have in flight again.

    Attributes:
        tier: which.
        reason: `unavailable`, or `epoch_changed` with both epochs.
    """

    tier: str
    reason: Literal["unavailable", "epoch_changed"]
    previous_epoch: str = ""
    epoch: str = ""

    def __str__(self) -> str:
        """For the log."""
        if self.reason == "unavailable":
            return f"{self.tier} can't be asked for what it holds"
        return f"{self.tier} may have lost what it held: its epoch was {self.previous_epoch}, and is {self.epoch}"
