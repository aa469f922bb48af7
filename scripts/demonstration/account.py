"""What was promised, and whether it was kept: the journal beside the ledger. Pure.

Promised is, for each attempt of a step:
- its result is applied exactly once: nothing that was committed is done again, nothing is lost;
- its handler is called once, and once more for each kill that struck while it ran, with the same idempotency key;
- no handler is called that the journal does not know of.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from ductor import HistoryRow
from ductor.journal.events import AttemptDispatched, AttemptFinished, NodeSettled
from ductor.journal.ids import attempt_token
from scripts.demonstration.ledger import Entry, Event


class StepAccount(msgspec.Struct, kw_only=True):
    """One step that ran handlers.

    Attributes:
        attempts: dispatched, by the journal.
        results: applied, by the journal; of which `failures` failed.
        settled: times that the step settled, by the journal.
        calls: of the handler, by the ledger.
        interrupted: calls that began and never ended: a kill struck.
        broken: promises that were not kept, in words.
    """

    step: str
    attempts: int = 0
    results: int = 0
    failures: int = 0
    settled: int = 0
    calls: int = 0
    interrupted: int = 0
    broken: list[str] = msgspec.field(default_factory=list)

    @property
    def story(self) -> str:
        """What happened, in words."""
        parts = [f"{self.failures} failed and retried"] if self.failures else []
        if self.interrupted:
            parts.append(f"{self.interrupted} call cut off by the kill, repeated with the same key")
        return "; ".join(parts) or "once"


def account(run_id: str, history: Sequence[HistoryRow], ledger: Iterable[Entry]) -> list[StepAccount]:
    """Account for every step that ran handlers, in the order of their first dispatch."""
    steps: dict[str, StepAccount] = {}
    dispatched: dict[str, str] = {}
    applied = Counter[str]()
    for row in history:
        for event in row.events:
            if isinstance(event, AttemptDispatched):
                step = steps.setdefault(event.node, StepAccount(step=event.node))
                step.attempts += 1
                dispatched[attempt_token(run_id, event.node, event.generation)] = event.node
            elif isinstance(event, AttemptFinished):
                steps[event.node].results += 1
                steps[event.node].failures += event.outcome == "failed"
                applied[attempt_token(run_id, event.node, event.generation)] += 1
            elif isinstance(event, NodeSettled) and event.node in steps:
                steps[event.node].settled += 1
    began, over = Counter[str](), Counter[str]()
    for entry in ledger:
        (began if entry.event is Event.BEGAN else over)[entry.key] += 1
        if entry.key not in dispatched:
            unknown = steps.setdefault(entry.step, StepAccount(step=entry.step))
            unknown.broken.append(f"the handler ran with the key {entry.key}, which the journal does not know")
    for key, name in dispatched.items():
        step = steps[name]
        step.calls += began[key]
        step.interrupted += began[key] - over[key]
        step.broken.extend(_broken(key, applied[key], began[key], over[key]))
    for step in steps.values():
        if step.settled != 1:
            step.broken.append(f"it settled {step.settled} times")
    return list(steps.values())


def _broken(key: str, applied: int, began: int, over: int) -> Iterable[str]:
    """The promises to one attempt that were not kept."""
    if applied != 1:
        yield f"{applied} results of attempt {key} were applied"
    if over != 1:
        yield f"the handler of attempt {key} came to an end {over} times"
    if began == 0:
        yield f"the handler of attempt {key} was never called"


def calls_after(entries: Sequence[Entry], pid: int) -> list[str]:
    """Steps whose handlers ended in process `pid` and were called again in another: work done twice."""
    done = {entry.key for entry in entries if entry.pid == pid and entry.event is not Event.BEGAN}
    return sorted({entry.step for entry in entries if entry.pid != pid and entry.key in done})
