"""Journals of the corpus with scatters: judged early, raised, redriven, large."""

from ductor.journal.events import (
    AttemptDispatched,
    AttemptFinished,
    ControlReceived,
    ErrorInfo,
    NodeReset,
    NodeSettled,
    RunEnded,
    RunReopened,
    ScatterStarted,
    TimerFired,
)
from tests.corpus.journals import LARGE, Row, at, start

FANNED_OUT_AND_REDRIVEN: list[Row] = [
    (
        0,
        [
            start("pay", trigger={"people": ["ada", "bob", "cyd"]}),
            ScatterStarted(
                node="pay", total=3, items=["ada", "bob", "cyd"], keys=("A", "B", "C"), is_map=True, interval_ms=100
            ),
            AttemptDispatched(node="pay[0]", generation=1, task="bank.transfer", input="ada"),
        ],
    ),
    (
        100,
        [
            TimerFired(key="pay", due_at_us=at(100)),
            AttemptDispatched(node="pay[1]", generation=1, task="bank.transfer", input="bob"),
        ],
    ),
    (
        150,
        [
            AttemptFinished(node="pay[1]", generation=1, outcome="failed", error=ErrorInfo(type="BankAway")),
            NodeSettled(node="pay[1]", status="failed", outcome="error"),
            NodeSettled(node="pay[0]", status="cancelled", outcome="withdrawn"),
            NodeSettled(
                node="pay",
                status="succeeded",
                outcome="success",
                output={"total": 3, "succeeded": 0, "failed": 1, "cancelled": 2},
                taken=("paid",),
            ),
            NodeSettled(
                node="paid",
                status="failed",
                outcome="error",
                error=ErrorInfo(type="BankAway", details={"key": "B", "index": 1, "details": None}, retryable=False),
            ),
            RunEnded(status="failed", error=ErrorInfo(type="BankAway"), reason="step paid failed"),
        ],
    ),
    (
        5_000,
        [
            ControlReceived(request_id="again", kind="redrive", by="ada"),
            RunReopened(
                nodes=(
                    NodeReset(node="pay", keeps_children=True),
                    NodeReset(node="paid"),
                )
            ),
            ScatterStarted(node="pay", total=3, is_resumed=True),
            AttemptDispatched(node="pay[0]", generation=2, task="bank.transfer", input="ada"),
        ],
    ),
    (
        5_010,
        [
            AttemptFinished(node="pay[0]", generation=2, outcome="succeeded", output_ref=LARGE),
            NodeSettled(node="pay[0]", status="succeeded", outcome="success"),
        ],
    ),
    (
        5_100,
        [
            TimerFired(key="pay", due_at_us=at(5_100)),
            AttemptDispatched(node="pay[1]", generation=2, task="bank.transfer", input="bob"),
        ],
    ),
]

GATHERED_AND_ONE_DONE_ANEW: list[Row] = [
    (
        0,
        [
            start("each", trigger_ref=LARGE),
            ScatterStarted(node="each", total=2, items_ref=LARGE),
            AttemptDispatched(node="each[0]", generation=1, task="work", input=1),
            AttemptDispatched(node="each[1]", generation=1, task="work", input=2),
        ],
    ),
    (
        10,
        [
            AttemptFinished(node="each[1]", generation=1, outcome="succeeded", output="b"),
            AttemptFinished(node="each[0]", generation=1, outcome="succeeded", output="a"),
            NodeSettled(node="each[1]", status="succeeded", outcome="success"),
            NodeSettled(node="each[0]", status="succeeded", outcome="success"),
            NodeSettled(
                node="each",
                status="succeeded",
                outcome="success",
                output={"total": 2, "succeeded": 2, "failed": 0, "cancelled": 0},
                taken=("all",),
            ),
            NodeSettled(node="all", status="succeeded", outcome="success", gathers="each", gather_strategy="partition"),
            RunEnded(status="completed", output={"result": ["a", "b"], "error": {}}),
        ],
    ),
    (
        900,
        [
            ControlReceived(request_id="again", kind="redrive", arguments={"from": ["each[1]"]}),
            RunReopened(nodes=(NodeReset(node="each", keeps_children=True, children=(1,)), NodeReset(node="all"))),
            ScatterStarted(node="each", total=2, is_resumed=True),
            AttemptDispatched(node="each[1]", generation=2, task="work", input=2),
        ],
    ),
]

FAN_OUT_JOURNALS: dict[str, list[Row]] = {
    "fanned-out-and-redriven": FANNED_OUT_AND_REDRIVEN,
    "gathered-and-one-done-anew": GATHERED_AND_ONE_DONE_ANEW,
}
