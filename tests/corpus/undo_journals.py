"""Journals of the corpus with undos: in part, asked for by a parent, of a child run, redriven."""

from ductor.journal.events import (
    AttemptDispatched,
    AttemptFinished,
    ChildReported,
    ChildStarted,
    CompensationRequested,
    CompensationsStarted,
    ControlReceived,
    ErrorInfo,
    NodeParked,
    NodeReset,
    NodeSettled,
    RunClosing,
    RunEnded,
    RunReopened,
)
from tests.corpus.journals import Row, start

PARENT = "019b7639-3c00-7000-8000-0000000000aa"
CHILD = "019b7639-3c00-7000-8000-0000000000ab"
CHILD_AGAIN = "019b7639-3c00-7000-8000-0000000000ac"

UNDONE_IN_PART_AND_ASKED_AGAIN: list[Row] = [
    (
        0,
        [
            start(
                "reserve",
                parent_run_id=PARENT,
                root_run_id=PARENT,
                depth=1,
                parent_node="order",
                parent_generation=1,
                parent_waits_for="terminal",
            ),
            AttemptDispatched(node="reserve", generation=1, task="inventory.reserve"),
        ],
    ),
    (
        10,
        [
            AttemptFinished(node="reserve", generation=1, outcome="succeeded", output={"id": "r-1"}),
            NodeSettled(node="reserve", status="succeeded", outcome="success", taken=("charge",), is_undoable=True),
            AttemptDispatched(node="charge", generation=1, task="payments.charge"),
        ],
    ),
    (
        20,
        [
            AttemptFinished(node="charge", generation=1, outcome="succeeded", output={"id": "c-1"}),
            NodeSettled(
                node="charge",
                status="failed",
                outcome="error",
                error=ErrorInfo(type="ExpressionError", message="no such key", retryable=False),
                untaken=("ship",),
                is_undoable=True,
            ),
            RunClosing(
                status="failed",
                error=ErrorInfo(type="ExpressionError", message="no such key", retryable=False),
                reason="step charge failed",
            ),
            CompensationsStarted(),
            AttemptDispatched(node="charge.compensate", generation=1, task="payments.refund", input={"id": "c-1"}),
        ],
    ),
    (
        30,
        [
            AttemptFinished(
                node="charge.compensate", generation=1, outcome="failed", error=ErrorInfo(type="AccountClosed")
            ),
            NodeSettled(node="charge.compensate", status="failed", outcome="error"),
            AttemptDispatched(node="reserve.compensate", generation=1, task="inventory.release", input={"id": "r-1"}),
        ],
    ),
    (
        40,
        [
            AttemptFinished(node="reserve.compensate", generation=1, outcome="succeeded"),
            NodeSettled(node="reserve.compensate", status="succeeded", outcome="success"),
            RunEnded(status="failed", compensated="partial"),
        ],
    ),
    (
        3_600_000,
        [
            ControlReceived(
                request_id="undo-1",
                kind="compensate",
                arguments={"report_to": "order.compensate", "report_id": "child:1:compensated:0"},
                by="run:parent",
            ),
            CompensationRequested(report_to="order.compensate", report_id="child:1:compensated:0"),
            RunReopened(nodes=()),
            RunClosing(
                status="failed",
                error=ErrorInfo(type="ExpressionError", message="no such key", retryable=False),
                reason="step charge failed",
            ),
            CompensationsStarted(),
            AttemptDispatched(node="charge.compensate", generation=2, task="payments.refund", input={"id": "c-1"}),
        ],
    ),
]

UNDOES_A_CHILD_AND_IS_REDRIVEN: list[Row] = [
    (
        0,
        [
            start("ship"),
            ChildStarted(
                node="ship",
                generation=1,
                run_id=CHILD,
                definition="order/ship",
                manifest_hash="7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730",
                body="ship",
            ),
        ],
    ),
    (
        10,
        [
            ChildReported(node="ship", generation=1, run_id=CHILD, status="completed", output={"id": 1}),
            NodeSettled(node="ship", status="succeeded", outcome="success", taken=("bill",), is_undoable=True),
            AttemptDispatched(node="bill", generation=1, task="bill"),
        ],
    ),
    (
        20,
        [
            AttemptFinished(node="bill", generation=1, outcome="failed", error=ErrorInfo(type="Boom")),
            NodeSettled(node="bill", status="failed", outcome="error"),
            RunClosing(status="failed", error=ErrorInfo(type="Boom"), reason="step bill failed"),
            CompensationsStarted(),
            NodeParked(node="ship.compensate", waiting="child"),
        ],
    ),
    (
        30,
        [
            ChildReported(node="ship.compensate", generation=0, run_id=CHILD, status="cancelled", compensated="true"),
            NodeSettled(node="ship.compensate", status="succeeded", outcome="success"),
            RunEnded(status="failed", compensated="true"),
        ],
    ),
    (
        40,
        [
            ControlReceived(request_id="r-1", kind="redrive"),
            RunReopened(nodes=(NodeReset(node="ship"), NodeReset(node="bill"))),
            ChildStarted(
                node="ship",
                generation=2,
                run_id=CHILD_AGAIN,
                definition="order/ship",
                manifest_hash="7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730",
                body="ship",
            ),
        ],
    ),
]

UNDO_JOURNALS: dict[str, list[Row]] = {
    "undone-in-part-and-asked-again": UNDONE_IN_PART_AND_ASKED_AGAIN,
    "undoes-a-child-and-is-redriven": UNDOES_A_CHILD_AND_IS_REDRIVEN,
}
