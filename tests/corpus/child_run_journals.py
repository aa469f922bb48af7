"""The journals of the corpus with child runs: of a parent that hears of its children, and of a child."""

from ductor.journal.events import (
    AttemptDispatched,
    AttemptFinished,
    CheckpointReached,
    ChildReported,
    ChildStarted,
    ContextPatched,
    ControlReceived,
    ErrorInfo,
    NodeParked,
    NodeReset,
    NodeSettled,
    RunClosing,
    RunEnded,
    RunReopened,
    TimerFired,
)
from tests.corpus.journals import LARGE, Row, at, start

_HASH = "7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730"
_CHILD = "019b76da-a800-7000-8000-00000000000{}"


def _child(node: str, number: int, **fields: object) -> ChildStarted:
    given: dict[str, object] = {
        "node": node,
        "generation": 1,
        "run_id": _CHILD.format(number),
        "definition": "payment",
        "manifest_hash": _HASH,
        **fields,
    }
    return ChildStarted(**given)  # type: ignore[arg-type]


PARENT: list[Row] = [
    (
        0,
        [
            start("pay", "tell", "watch", definitions={"payment": _HASH}),
            _child("pay", 1, until_us=at(60_000), input={"amount": 3}),
            _child("tell", 2, is_abandoned=True),
            NodeSettled(node="tell", status="succeeded", outcome="success", output={"run_id": _CHILD.format(2)}),
            _child("watch", 3, input_ref=LARGE, body="watch"),
        ],
    ),
    (
        50,
        [
            ChildReported(
                node="watch", generation=1, run_id=_CHILD.format(3), status="checkpoint", checkpoint="half", output=1
            ),
            NodeSettled(node="watch", status="succeeded", outcome="success"),
        ],
    ),
    (
        60_000,
        [
            TimerFired(key="pay", due_at_us=at(60_000)),
            NodeSettled(node="pay", status="failed", outcome="error", error=ErrorInfo(type="ChildTimeout")),
            RunClosing(status="failed", error=ErrorInfo(type="ChildTimeout"), reason="step pay failed"),
            RunEnded(status="failed"),
        ],
    ),
    (
        70_000,
        [
            ControlReceived(request_id="r-1", kind="redrive", by="ann"),
            RunReopened(nodes=(NodeReset(node="pay"),)),
            _child("pay", 4, generation=2),
        ],
    ),
    (
        70_100,
        [
            ChildReported(node="watch", generation=1, run_id=_CHILD.format(3), status="completed", output_ref=LARGE),
            ChildReported(
                node="pay", generation=2, run_id=_CHILD.format(4), status="completed", output={"done": False}
            ),
            NodeParked(node="pay", waiting="repeat", until_us=at(80_000)),
        ],
    ),
    (
        80_000,
        [
            TimerFired(key="pay", due_at_us=at(80_000)),
            _child("pay", 5, generation=3, iteration=1, until_us=at(140_000)),
        ],
    ),
    (
        80_200,
        [
            ChildReported(
                node="pay",
                generation=3,
                run_id=_CHILD.format(5),
                status="failed",
                error=ErrorInfo(type="Declined", details={"child": {"run_id": _CHILD.format(5), "status": "failed"}}),
                compensated="true",
            ),
            NodeSettled(node="pay", status="failed", outcome="error"),
            RunClosing(status="failed", error=ErrorInfo(type="Declined"), reason="step pay failed"),
            RunEnded(status="failed"),
        ],
    ),
]

CHILD: list[Row] = [
    (
        0,
        [
            start(
                "charge",
                trigger={"amount": 3},
                context={"seen": 0},
                parent_run_id=_CHILD.format(0),
                root_run_id=_CHILD.format(0),
                parent_node="pay",
                parent_generation=2,
                parent_waits_for="checkpoint:half",
                depth=2,
                body="pay",
                scope={"item": 7, "index": 0, "key": "a"},
                definitions={"payment": _HASH},
                timeout_at_us=at(900_000),
            )
        ],
    ),
    (5, [AttemptDispatched(node="charge", generation=1, task="cards.charge")]),
    (
        90,
        [
            AttemptFinished(node="charge", generation=1, outcome="succeeded", output=3),
            NodeSettled(node="charge", status="succeeded", outcome="success"),
            ContextPatched(node="charge", patch={"seen": 1}),
            CheckpointReached(node="charge", checkpoint="half"),
            RunEnded(status="completed", output={"charge": 3}),
        ],
    ),
]

CHILD_RUN_JOURNALS: dict[str, list[Row]] = {"parent-of-child-runs": PARENT, "child-run": CHILD}
