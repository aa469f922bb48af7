"""Random runs: small definitions of every sort of step, driven by whatever can happen, in any order.

`check_journal` says what must be true of every journal, whatever led to it, beyond what the driver proves row by row.
"""

from collections import Counter

from hypothesis import strategies as st

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.definitions.values import JsonValue
from ductor.journal.events import (
    SETTLED_NODE_STATUSES,
    AttemptDispatched,
    AttemptFinished,
    ControlKind,
    ControlReceived,
    Message,
    MessageReceived,
    MessageTaken,
    NodeParked,
    NodeSettled,
    RunEnded,
    RunPaused,
    RunReopened,
    RunResumed,
    TimerFired,
)
from tests.actors.tick.driver import SECOND_US, Driver

BODIES = (
    "type: task, task: work",
    "type: task, task: work, on_error: continue, retry: {max_attempts: 2, initial: 3s, jitter: 0}",
    "type: task, task: work, repeat: {until: 'iteration >= 1', every: 2s}",
    "type: task, task: work, emit: [{event: made, payload: '${output}'}], effects: {n: '${context.n + 1}'}",
    "type: wait, duration: 3s",
    "type: wait, until: 1970-01-01T00:00:09Z, timeout: 5s, on_timeout: skip",
    "type: wait, signal: go",
    "type: wait, signal: go, timeout: 4s, on_error: continue",
    "type: wait, event: sent, match: event.payload > context.n, timeout: 8s, on_timeout: skip",
    "type: approval, approvers: [ann, bob, cy], quorum: 2, timeout: 6s, on_timeout: approve",
    "type: human_loop, title: t",
    "type: interaction, ask: q, schema: {type: integer}, timeout: 7s, on_timeout: skip",
    "type: event_set, events: [{name: sent}, {name: seen, match: event.payload > 2}], until: {event: stop}",
    "type: event_set, events: [{name: sent}], policy: until_timeout, timeout: 5s",
    "type: transform, value: 1, run_if: context.n < 2",
)
JOINS = ("all", "every", "any", "2")
PEOPLE = ("ann", "bob", "cy", "eve")
ACTIONS = (
    *("finish", "finish", "fail", "wait", "wait", "signal", "event", "vote", "case", "reply"),
    *("pause", "resume", "cancel", "terminate", "redrive", "late", "several"),
)
Action = tuple[str, int]

actions = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11)), min_size=8, max_size=30)


@st.composite
def definitions(draw: st.DrawFn) -> str:
    """A few steps, each leading to some of those after it; some withdraw others, some handlers hear."""
    count = draw(st.integers(2, 6))
    bodies = [draw(st.sampled_from(BODIES)) for _ in range(count)]
    followers = [
        sorted(draw(st.lists(st.integers(number + 1, count - 1), unique=True, max_size=2)))
        if number < count - 1
        else []
        for number in range(count)
    ]
    incoming = Counter(target for targets in followers for target in targets)
    lines = []
    for number, body in enumerate(bodies):
        parts = [f"ref: s{number}", body]
        if incoming[number]:
            join = draw(st.sampled_from([join for join in JOINS if join != "2" or incoming[number] >= 2]))
            parts.append(f"join: {join}")
            if join in ("any", "2") and draw(st.booleans()):
                parts.append("cancel_rest: true")
        if followers[number]:
            outcome = "approved" if "approval" in body else "success"
            parts.append(f"next: {{{outcome}: [{', '.join(f's{target}' for target in followers[number])}]}}")
        beside = [other for other in range(count) if other != number]
        if draw(st.integers(0, 4)) == 0:
            parts.append(f"cancels: [s{draw(st.sampled_from(beside))}]")
        lines.append("  - {" + ", ".join(parts) + "}")
    head = "context: {n: 0}\n"
    if draw(st.booleans()):
        head += "timeout: 40s\n"
    if draw(st.booleans()):
        head += "on:\n  - {signal: go, effects: {heard: '${event.payload}'}}\n"
        head += "  - {event: seen, effects: {n: '${context.n + 1}'}}\n"
    defer = "defer: [{ref: last, type: task, task: work}]\n" if draw(st.booleans()) else ""
    return head + defer + "steps:\n" + "\n".join(lines)


class Played:
    """A run to which things happen. Results that were sent may be sent again; events may be some seconds old."""

    def __init__(self, text: str, *, has_old_events: bool = True) -> None:
        self._has_old_events = has_old_events
        self.run = Driver(text, {}, run_id="0198f5d2-0000-7000-8000-000000000001")
        self._earlier: list[AttemptFinished] = []
        self._controls = self._events = 0

    def act(self, action: str, choice: int) -> None:
        """Let something happen, where it can."""
        run = self.run
        if action in ("finish", "fail", "late"):
            self._result(action, choice)
        elif action == "wait":
            run.advance((0.5, 1, 2, 5)[choice % 4])
        elif action in ("pause", "resume", "cancel", "terminate", "redrive"):
            self._control(action, choice)  # type: ignore[arg-type]
        elif action == "several":
            run.tick(
                messages=[self._message(kind, choice + place) for place, kind in enumerate(MANY[choice % len(MANY)])]
            )
        else:
            run.tick(messages=[self._message(action, choice)])

    def _result(self, action: str, choice: int) -> None:
        run = self.run
        flying = sorted(run.in_flight)
        if action == "late":  # delivered a second time, perhaps long after
            if self._earlier:
                run.tick(results=[self._earlier[choice % len(self._earlier)]])
            return
        if not flying:
            return
        ref = flying[choice % len(flying)]
        self._earlier.append(
            AttemptFinished(node=ref, generation=run.in_flight[ref], outcome="succeeded", output=choice)
        )
        if action == "finish":
            run.finish(ref, choice)
        else:
            run.fail(ref)

    def _control(self, kind: ControlKind, choice: int) -> None:
        self._controls += 1
        arguments: dict[str, JsonValue] = {}
        refs = [ref for ref, node in self.run.program.nodes.items() if not node.is_defer]
        if kind == "redrive" and choice % 3 == 0:
            arguments["from"] = refs[choice % len(refs)]
        self.run.request(kind, f"control-{self._controls}", **arguments)

    def _message(self, kind: str, choice: int) -> Message:
        run = self.run
        if kind == "signal":
            return run.message("signal", ("go", "go", "other")[choice % 3], choice)
        if kind == "event":
            name = ("sent", "seen", "stop", "made")[choice % 4]
            age_us = (choice % 3) * SECOND_US if self._has_old_events else 0
            self._events += 1
            return run.message("event", name, choice, id=f"event:{self._events}", at_us=run.now_us - age_us)
        asked = sorted(ref for ref, node in run.state.nodes.items() if node.waiting in ("approval", "interaction"))
        node = asked[choice % len(asked)] if asked else "s0"
        by = PEOPLE[choice % len(PEOPLE)]
        if kind == "vote":
            return run.message("vote", payload={"decision": ("approved", "rejected")[choice % 2]}, node=node, by=by)
        if kind == "case":
            return run.message("case", payload={"status": ("begun", "resolved")[choice % 2]}, node=node, by=by)
        return run.message("reply", payload=(choice, "no number")[choice % 2], node=node, by=by)


MANY = (
    ("signal", "signal", "signal"),
    ("event", "signal", "event"),
    ("vote", "vote", "vote", "vote"),
    ("reply", "reply", "case", "case"),
    ("event", "event", "event", "event", "event"),
)


def check_journal(run: Driver) -> None:
    """What must be true of every journal."""
    _check_phases(run)
    _check_messages(run)
    armed = _check_timers(run)
    deadlines = {key for key in run.state.timers.deadlines() if not key.startswith("@")}
    assert deadlines == armed


def _check_phases(run: Driver) -> None:
    """While a run is paused, and after its end, nothing happens; and a step settles once, until a redrive."""
    is_paused = has_ended = False
    settled: set[str] = set()
    failed: set[str] = set()
    for event in run.events():
        if is_paused:
            assert isinstance(event, ControlReceived | RunResumed), f"{event} while paused"
        if has_ended:
            assert isinstance(event, ControlReceived | RunReopened), f"{event} after the end"
        is_paused = isinstance(event, RunPaused) or (is_paused and not isinstance(event, RunResumed))
        has_ended = isinstance(event, RunEnded) or (has_ended and not isinstance(event, RunReopened))
        if isinstance(event, RunReopened):
            settled -= {reset.node for reset in event.nodes}
            settled -= {ref for ref in settled if ref.endswith(UNDO_SUFFIX) and _is_undone_anew(ref, settled, failed)}
            failed.clear()
        elif isinstance(event, NodeSettled):
            assert event.node not in settled, f"{event.node} settles twice"
            settled.add(event.node)
            if event.status != "succeeded":
                failed.add(event.node)
    assert settled == {ref for ref, node in run.state.nodes.items() if node.status in SETTLED_NODE_STATUSES}


def _is_undone_anew(undo: str, settled: set[str], failed: set[str]) -> bool:
    """Whether an undo counts no more in a run that is reopened: it failed, or its step is done anew."""
    return undo in failed or undo.removesuffix(UNDO_SUFFIX) not in settled


def _check_messages(run: Driver) -> None:
    """What is taken up is taken up once, and consumed once, by one node if it is a signal."""
    received = Counter(event.message.id for event in run.events() if isinstance(event, MessageReceived))
    taken = Counter(event.message_id for event in run.events() if isinstance(event, MessageTaken))
    assert set(received.values()) <= {1}, "a message is taken up twice"
    assert set(taken.values()) <= {1}, "a message is consumed twice"
    assert taken.keys() <= received.keys()
    signals = {e.message.id for e in run.events() if isinstance(e, MessageReceived) and e.message.kind == "signal"}
    for event in run.events():
        if isinstance(event, MessageTaken) and event.message_id in signals:
            assert len(event.nodes) <= 1, "several steps consume one signal"


def _check_timers(run: Driver) -> set[str]:
    """Each timer fires, not early, or is cancelled. Returns those that are armed still."""
    armed: set[str] = set()
    for row, events in zip(run.rows, run.rows_of_events(), strict=True):
        for event in events:
            if isinstance(event, TimerFired):
                assert event.due_at_us <= row.at_us, "a timer fired early"
                if not event.key.startswith("@"):
                    assert event.key in armed, f"the timer of {event.key} fired although it was not armed"
                    armed.discard(event.key)
            elif isinstance(event, NodeParked):
                armed.discard(event.node)
                if event.until_us is not None:
                    armed.add(event.node)
            elif isinstance(event, AttemptDispatched):
                assert event.node not in armed, f"{event.node} is dispatched before its time"
            elif isinstance(event, NodeSettled):
                armed.discard(event.node)
    return armed
