"""A model of one workflow that is too simple to be wrong: one struct per run, one stage after another.

The workflow (`ORDER`) goes through a task that may fail, a signal, an event, an approval and a pause. What the model
knows of a run is its stage, whether it is paused, what was sent to it and not used yet, and when its timer is due.
Everything that happens at a moment happens at once.
"""

from collections import deque
from typing import Final, Literal

import msgspec

from ductor.definitions.values import JsonObject

MOMENT_S: Final = 2
"""Between two things that are asked; all that follows from one has happened within it, sweeps included."""

RETRY_S: Final = 10.9
COOL_S: Final = 60.9

ORDER: Final[JsonObject] = {
    "name": "order",
    "steps": [
        {
            "ref": "work",
            "type": "task",
            "task": "work",
            "input": {"order": "${trigger}"},
            "retry": {"max_attempts": 2, "initial": "10900ms", "jitter": 0},
            "next": "heard",
        },
        {"ref": "heard", "type": "wait", "signal": "go", "next": "paid"},
        {
            "ref": "paid",
            "type": "wait",
            "event": "paid",
            "match": "event.payload.order == trigger",
            "lookback": "7d",
            "next": "sign",
        },
        {"ref": "sign", "type": "approval", "approvers": ["ada"], "next": {"approved": "cool", "rejected": "refused"}},
        {"ref": "cool", "type": "wait", "duration": "60900ms"},
        {"ref": "refused", "type": "transform", "end": "failed", "error": {"type": "Refused"}},
    ],
    "output": {"heard": "${steps.heard.output}", "paid": "${steps.paid.output.amount}"},
}

Stage = Literal["work", "retry", "heard", "paid", "sign", "cool", "refused", "end"]
Ended = Literal["completed", "failed", "cancelled", "terminated"]


class Run(msgspec.Struct):
    """What the model knows of one run.

    Attributes:
        stage: the step that it stands at; of a run that has ended, the one that a redrive begins with.
        ended: how it ended; None while it is open.
        due_s: when the timer of its stage fires; None where there is none.
        signals: payloads that no step has taken yet, in order.
        vote: a decision that was taken while the run was paused.
        messages: ids of signals that were accepted.
        attempts: calls of the handler.
    """

    order: str
    stage: Stage = "work"
    ended: Ended | None = None
    is_paused: bool = False
    due_s: float | None = None
    signals: deque[int] = msgspec.field(default_factory=deque)
    vote: bool | None = None
    messages: set[str] = msgspec.field(default_factory=set)
    heard: int | None = None
    attempts: int = 0


class Reference:
    """All runs, the events that were published, and which orders fail."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.runs: dict[str, Run] = {}
        self.amounts: dict[str, int] = {}
        self.broken: set[str] = set()

    def start(self, order: str) -> bool:
        """Start a run under its order as key; whether it is new."""
        if order in self.runs:
            return False
        run = self.runs[order] = Run(order)
        self._work(run)
        return True

    def signal(self, run: Run, message_id: str, payload: int) -> str:
        """Give the verdict of a signal, and let it arrive if it is accepted."""
        if message_id in run.messages:
            return "duplicate"
        if run.ended is not None:
            return "refused"
        run.messages.add(message_id)
        run.signals.append(payload)
        self._go_on(run)
        return "accepted"

    def publish(self, order: str, amount: int) -> str:
        """Publish the one event of an order; a second one is a duplicate."""
        if order in self.amounts:
            return "duplicate"
        self.amounts[order] = amount
        if order in self.runs:
            self._go_on(self.runs[order])
        return "accepted"

    def decide(self, run: Run, *, approves: bool) -> str:
        """Vote; only a run that asks takes it, and only once."""
        if run.ended is not None or run.stage != "sign" or run.vote is not None:
            return "refused"
        run.vote = approves
        self._go_on(run)
        return "accepted"

    def end(self, run: Run, how: Literal["cancelled", "terminated"]) -> str:
        """Cancel or terminate."""
        if run.ended is not None:
            return "refused"
        run.vote, run.is_paused = None, False
        self._end(run, how)
        return "accepted"

    def pause(self, run: Run) -> None:
        """Pause; the time that is left until its timer fires is kept."""
        if run.ended is None and not run.is_paused:
            run.is_paused = True
            run.due_s = None if run.due_s is None else run.due_s - self.now_s

    def resume(self, run: Run) -> None:
        """Go on."""
        if run.ended is None and run.is_paused:
            run.is_paused = False
            run.due_s = None if run.due_s is None else run.due_s + self.now_s
            self._go_on(run)

    def redrive(self, run: Run) -> None:
        """Go on from where it failed or was cancelled."""
        if run.ended not in (None, "completed"):
            run.ended = None
            if run.stage in ("work", "retry"):
                self._work(run)
            elif run.stage == "cool":
                run.due_s = self.now_s + COOL_S
            self._go_on(run)

    def pass_time(self, seconds: float) -> None:
        """Let timers fire."""
        self.now_s += seconds
        for run in self.runs.values():
            if run.due_s is not None and not run.is_paused and run.due_s <= self.now_s:
                run.due_s = None
                if run.stage == "retry":
                    self._second_attempt(run)
                else:
                    run.stage = "end"
                    self._end(run, "completed")

    def _work(self, run: Run) -> None:
        run.attempts += 1
        if run.order in self.broken:
            run.stage, run.due_s = "retry", self.now_s + RETRY_S
        else:
            run.stage = "heard"
            self._go_on(run)

    def _second_attempt(self, run: Run) -> None:
        run.attempts += 1
        if run.order in self.broken:
            run.stage = "work"
            self._end(run, "failed")
        else:
            run.stage = "heard"
            self._go_on(run)

    def _go_on(self, run: Run) -> None:
        if run.is_paused or run.ended is not None:
            return
        if run.stage == "heard" and run.signals:
            run.heard, run.stage = run.signals.popleft(), "paid"
        if run.stage == "paid" and run.order in self.amounts:
            run.stage = "sign"
        if run.stage == "sign" and run.vote is not None:
            approves, run.vote = run.vote, None
            run.stage = "cool" if approves else "refused"
            if approves:
                run.due_s = self.now_s + COOL_S
            else:
                self._end(run, "failed")

    @staticmethod
    def _end(run: Run, how: Ended) -> None:
        """What no step has taken by the end is undelivered: a redrive does not bring it back."""
        run.ended, run.due_s = how, None
        run.signals.clear()
