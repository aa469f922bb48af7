"""The journals of the corpus that tell of leases."""

from ductor.journal.events import (
    RUN_LEASE,
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ControlReceived,
    ErrorInfo,
    LeaseGranted,
    NodeParked,
    NodeReset,
    NodeSettled,
    RunClosing,
    RunEnded,
    RunReopened,
    TimerFired,
)
from tests.corpus.journals import Row, at, start

LATE = ErrorInfo(
    type="LeaseTimeout",
    message="step print: the lease `printer` was not free within 60000 ms",
    details={"key": "printer", "limit": 2, "timeout_ms": 60_000},
    retryable=False,
)


def asks(node: str, key: str, limit: int, until_us: int | None = None) -> AnyEvent:
    """A node begins to wait for a lease."""
    return NodeParked(node=node, waiting="lease", until_us=until_us, data={"key": key, "limit": limit})


LEASED: list[Row] = [
    (0, [start("print"), asks(RUN_LEASE, "customer/ada", 1)]),
    (40, [LeaseGranted(node=RUN_LEASE, generation=0, fence=11), asks("print", "printer", 2, at(60_040))]),
    (60_040, [
        TimerFired(key="print", due_at_us=at(60_040)),
        NodeSettled(node="print", status="failed", outcome="error", error=LATE),
        RunEnded(status="failed", error=LATE, reason="step print failed"),
    ]),
    (90_000, [
        ControlReceived(request_id="r-1", kind="redrive", by="bob"),
        RunReopened(nodes=(NodeReset(node="print"),)),
        asks(RUN_LEASE, "customer/ada", 1),
    ]),
    (90_010, [LeaseGranted(node=RUN_LEASE, generation=1, fence=15), asks("print", "printer", 2, at(150_010))]),
    (90_020, [
        LeaseGranted(node="print", generation=1, fence=16),
        AttemptDispatched(node="print", generation=1, task="printer.print"),
    ]),
    (90_030, [
        AttemptFinished(node="print", generation=1, outcome="failed", error=ErrorInfo(type="PaperJam")),
        NodeParked(node="print", waiting="retry", until_us=at(91_030)),
    ]),
]  # fmt: skip

CANCELLED_IN_LINE: list[Row] = [
    (0, [start("a"), asks(RUN_LEASE, "one", 1)]),
    (5, [
        ControlReceived(request_id="c-1", kind="cancel", by="bob"),
        RunClosing(status="cancelled", error=ErrorInfo(type="RunCancelled", retryable=False), reason="enough"),
        NodeSettled(node=RUN_LEASE, status="cancelled"),
        RunEnded(status="cancelled"),
    ]),
]  # fmt: skip

LEASE_JOURNALS: dict[str, list[Row]] = {"leased-and-redriven": LEASED, "cancelled-in-line": CANCELLED_IN_LINE}
