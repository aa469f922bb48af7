"""The journals of the corpus that were written by hand: rows as (milliseconds after the start, events)."""

from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    CheckpointReached,
    ContextPatched,
    ContinueRequested,
    ControlReceived,
    DefersStarted,
    ErrorInfo,
    EventEmitted,
    HistoryWarned,
    Message,
    MessageReceived,
    MessageTaken,
    NodeParked,
    NodeReset,
    NodeSettled,
    OpenChild,
    PayloadRef,
    RunClosing,
    RunContinued,
    RunEnded,
    RunPaused,
    RunReopened,
    RunResumed,
    RunStarted,
    SignalSent,
    TickLimited,
    TimerFired,
)

Row = tuple[int, list[AnyEvent]]
START_US = 1_767_225_600_000_000
LARGE = PayloadRef("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", 40_000)


def at(ms: int) -> int:
    """Microseconds since the epoch, `ms` after the start."""
    return START_US + ms * 1_000


def start(*entrypoints: str, **fields: object) -> RunStarted:
    """The first event of a journal."""
    given: dict[str, object] = {
        "tenant": "acme",
        "definition": "order",
        "manifest_hash": "7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730",
        "entrypoints": entrypoints,
        **fields,
    }
    return RunStarted(**given)  # type: ignore[arg-type]


COMPLETED: list[Row] = [
    (
        0,
        [
            start("reserve", trigger={"sku": "A-1", "count": 3}, key="order-7", context={"total": 0}),
            AttemptDispatched(node="reserve", generation=1, task="inventory.reserve", input={"sku": "A-1", "count": 3}),
        ],
    ),
    (
        20,
        [
            AttemptFinished(
                node="reserve",
                generation=1,
                outcome="succeeded",
                output={"reservation": "R-9"},
                worker="host-a/1",
                started_at_us=at(1),
                finished_at_us=at(19),
            ),
            NodeSettled(node="reserve", status="succeeded", taken=("charge",)),
            ContextPatched(node="reserve", patch={"reservation": "R-9"}),
            CheckpointReached(node="reserve", checkpoint="reserved"),
            AttemptDispatched(node="charge", generation=1, task="payments.charge", input={"cents": 4_999}),
        ],
    ),
    (
        120,
        [
            AttemptFinished(
                node="charge",
                generation=1,
                outcome="failed",
                error=ErrorInfo(type="Unavailable", message="503", details={"attempt": 1}, retry_after_ms=1_000),
                worker="host-b/2",
            ),
            NodeParked(node="charge", waiting="retry", until_us=at(1_120)),
        ],
    ),
    (
        1_121,
        [
            TimerFired(key="charge", due_at_us=at(1_120)),
            AttemptDispatched(node="charge", generation=2, task="payments.charge", attempt=2),
        ],
    ),
    (
        1_200,
        [
            AttemptFinished(node="charge", generation=2, outcome="succeeded", output={"charged": True}),
            NodeSettled(node="charge", status="succeeded"),
            RunEnded(status="completed", output={"charged": True}),
        ],
    ),
]

BRANCHES_AND_EXACT_VALUES: list[Row] = [
    (
        0,
        [
            start(
                "prüfen",
                trigger_ref=LARGE,
                config={"limit": 1.0},
                context={"n": 2**70, "f": 1e22, "zero": -0.0, "text": "😀 'quoted' \\ \u2028"},
                search_attributes={"city": "Ulm", "vip": True},
                parent_run_id="01900000-0000-7000-8000-0000000000aa",
                root_run_id="01900000-0000-7000-8000-0000000000aa",
                depth=1,
            ),
            NodeSettled(
                node="prüfen", status="succeeded", outcome="teuer", output=None, taken=("a", "b"), untaken=("c",)
            ),
            NodeSettled(node="c", status="skipped", untaken=("join",)),
            AttemptDispatched(node="a", generation=1, task="do", input_ref=LARGE, queue="slow"),
            AttemptDispatched(node="b", generation=1, task="do", input={"empty": {}, "list": [], "null": None}),
        ],
    ),
    (
        5,
        [
            AttemptFinished(node="b", generation=1, outcome="succeeded", output=[1, 1.0, True, "1", -(2**64)]),
            NodeSettled(node="b", status="succeeded", taken=("join",)),
            ContextPatched(node="b", patch={"n": 1, "new": {"deep": [{}]}}),
        ],
    ),
    (
        9,
        [
            AttemptFinished(node="a", generation=1, outcome="succeeded", output_ref=LARGE),
            AttemptDispatched(node="a", generation=2, task="do", input={"round": 2}, iteration=1),
            TickLimited(),
        ],
    ),
    (10, [AttemptFinished(node="a", generation=2, outcome="cancelled"), NodeSettled(node="a", status="cancelled")]),
]

CANCELLED_WITH_DEFERS: list[Row] = [
    (
        0,
        [
            start("wait", "work", timeout_at_us=at(60_000)),
            NodeParked(node="wait", waiting="approval", until_us=at(30_000)),
            AttemptDispatched(node="work", generation=1, task="long.work"),
        ],
    ),
    (
        500,
        [
            ControlReceived(request_id="cancel-1", kind="cancel", arguments={"reason": "no longer needed"}, by="ann"),
            RunClosing(status="cancelled", reason="no longer needed", grace_until_us=at(10_500)),
            NodeSettled(node="wait", status="cancelled"),
        ],
    ),
    (
        10_501,
        [
            TimerFired(key="@grace", due_at_us=at(10_500)),
            NodeSettled(node="work", status="cancelled", error=ErrorInfo(type="Cancelled", retryable=False)),
            DefersStarted(defers=("release",)),
            AttemptDispatched(node="release", generation=1, task="locks.release"),
        ],
    ),
    (
        10_600,
        [
            AttemptFinished(node="release", generation=1, outcome="succeeded"),
            NodeSettled(node="release", status="succeeded"),
            RunEnded(status="cancelled"),
        ],
    ),
]

TIMED_OUT: list[Row] = [
    (0, [start("sleep", timeout_at_us=at(1_000)), NodeParked(node="sleep", waiting="timer", until_us=at(9_000))]),
    (
        1_000,
        [
            TimerFired(key="@timeout", due_at_us=at(1_000)),
            RunClosing(status="failed", error=ErrorInfo(type="Timeout", message="the run took longer than 1s")),
            NodeSettled(node="sleep", status="cancelled"),
            RunEnded(status="failed"),
        ],
    ),
]

STILL_OPEN: list[Row] = [
    (
        0,
        [
            start("a", "b"),
            NodeParked(node="a", waiting="signal"),
            NodeParked(node="b", waiting="timer", until_us=at(7)),
        ],
    ),
    (7, [TimerFired(key="b", due_at_us=at(7)), NodeSettled(node="b", status="succeeded", taken=("c", "d"))]),
    (
        8,
        [
            NodeParked(node="c", waiting="repeat", until_us=at(20)),
            NodeParked(node="d", waiting="retry", until_us=at(9)),
        ],
    ),
]

PAUSED_SIGNALLED_AND_REDRIVEN: list[Row] = [
    (
        0,
        [
            start("hear", "pay"),
            NodeParked(
                node="hear",
                waiting="signal",
                until_us=at(9_000),
                names=("signal:approved", "event:größe"),
                data={"title": "Approve?", "n": 1.0},
            ),
            NodeParked(node="later", waiting="timer", until_us=at(8_000), until_is_absolute=True),
            AttemptDispatched(node="pay", generation=1, task="payments.charge", input={"cents": 1}),
        ],
    ),
    (100, [ControlReceived(request_id="pause-1", kind="pause", by="ann"), RunPaused(by="ann", reason="audit")]),
    (
        200,
        [
            AttemptFinished(node="pay", generation=1, outcome="failed", error=ErrorInfo(type="Declined")),
            MessageReceived(
                message=Message(
                    id="message-1",
                    kind="signal",
                    name="approved",
                    payload={"ok": True},
                    by="bob",
                    at_us=at(150),
                    position=7,
                )
            ),
            MessageReceived(message=Message(id="message-2", kind="event", name="größe", payload_ref=LARGE, position=8)),
            NodeSettled(node="pay", status="failed", outcome="failed", untaken=("ship",)),
        ],
    ),
    (
        1_100,
        [
            ControlReceived(request_id="resume-1", kind="resume"),
            RunResumed(paused_us=1_000_000),
            MessageTaken(message_id="message-1", nodes=("hear",)),
            NodeSettled(node="hear", status="succeeded", output={"ok": True}, taken=("tell",)),
            EventEmitted(node="tell", event_id="event-1", name="order.approved", payload={"n": 2**64}),
            SignalSent(
                node="tell",
                run_id="01900000-0000-7000-8000-0000000000bb",
                message_id="message-3",
                name="approved",
                payload_ref=LARGE,
            ),
            NodeSettled(node="tell", status="succeeded"),
            RunClosing(status="failed", error=ErrorInfo(type="Declined")),
            NodeSettled(node="later", status="cancelled"),
            RunEnded(status="failed"),
        ],
    ),
    (
        5_000,
        [
            ControlReceived(request_id="redrive-1", kind="redrive", arguments={"input": {"cents": 2}}),
            RunReopened(
                nodes=(NodeReset(node="pay"), NodeReset(node="ship"), NodeReset(node="later")),
                input_node="pay",
                input={"cents": 2},
            ),
        ],
    ),
]

FIRST_OF_CHAIN = "019b7662-0400-7c3e-8d08-2c37b582f4d2"
BEFORE_IN_CHAIN = "019b7662-0bb8-71be-9b8d-0759fd85307f"
AFTER_IN_CHAIN = "019b7662-1770-7424-b23f-72de3e543fbb"
CARRIED_CHILD = "019b7662-0fa0-7aa0-8000-000000000001"

CONTINUED: list[Row] = [
    (
        0,
        [
            start(
                "hear",
                trigger={"customer": "ada"},
                key="ada",
                context={"points": 10},
                timeout_at_us=at(100_000),
                parent_run_id="019b7662-0000-7000-8000-000000000009",
                root_run_id="019b7662-0000-7000-8000-000000000009",
                depth=1,
                iteration=2,
                continued_from_run_id=BEFORE_IN_CHAIN,
                chain_run_id=FIRST_OF_CHAIN,
                parent_node="account",
                parent_generation=1,
                parent_waits_for="terminal",
                definitions={"book": "aa82838793afff3e0dc125f3822a78994d44be8546ff72e06ca99b4e64841344"},
                open_children=(OpenChild(run_id=CARRIED_CHILD, node="book"),),
                lease_key="customer/ada",
                lease_fence=7,
            ),
            TickLimited(),
        ],
    ),
    (5, [NodeParked(node="hear", waiting="signal", names=("signal:purchase",)), HistoryWarned(transitions=2, limit=2)]),
    (
        1_000,
        [
            ControlReceived(request_id="again", kind="continue_as_new", arguments={"reason": "old"}, by="bob"),
            ContinueRequested(request_id="again", until_us=at(61_000), reason="continue_as_new requested by bob: old"),
            NodeSettled(node="hear", status="cancelled"),
            RunContinued(
                successor_run_id=AFTER_IN_CHAIN, request_id="again", reason="continue_as_new requested by bob: old"
            ),
        ],
    ),
]

PAUSING_BEFORE_IT_CONTINUES: list[Row] = [
    (0, [start("look", context={"looks": 0}), AttemptDispatched(node="look", generation=1, task="shop.price")]),
    (
        10,
        [
            AttemptFinished(node="look", generation=1, outcome="succeeded", output=12),
            ContextPatched(node="look", patch={"looks": 1}),
            NodeSettled(node="look", status="succeeded", outcome="success"),
            ContinueRequested(
                request_id="@repeat", until_us=at(3_600_010), reason="round 1 of `repeat` is over", is_timed=True
            ),
        ],
    ),
    (
        20,
        [
            MessageReceived(message=Message(id="m-1", kind="signal", name="note", at_us=at(19), position=1)),
        ],
    ),
]

JOURNALS: dict[str, list[Row]] = {
    "completed": COMPLETED,
    "branches-and-exact-values": BRANCHES_AND_EXACT_VALUES,
    "cancelled-with-defers": CANCELLED_WITH_DEFERS,
    "timed-out": TIMED_OUT,
    "still-open": STILL_OPEN,
    "paused-signalled-and-redriven": PAUSED_SIGNALLED_AND_REDRIVEN,
    "continued": CONTINUED,
    "pausing-before-it-continues": PAUSING_BEFORE_IT_CONTINUES,
}
