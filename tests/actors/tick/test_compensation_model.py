"""Random runs whose steps can be undone, against a model that reads their journals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ductor.definitions.values import JsonValue
from ductor.journal.events import AnyEvent, AttemptFinished, ControlKind, RunReopened
from scripts.simulation.undo_model import UndoModel
from tests.actors.tick.driver import Driver
from tests.actors.tick.interleavings import check_journal

BODIES = (
    "type: task, task: work, compensate: {task: undo}",
    "type: task, task: work, compensate: {task: undo, retry: {max_attempts: 2, initial: 2s, jitter: 0}}",
    "type: task, task: work, compensate: {task: undo, input: '${output.missing}'}",
    "type: task, task: work, compensate: {task: undo}, on_error: continue",
    "type: task, task: work, compensate: {task: undo}, effects: {n: '${output > 7 ? output.missing : output}'}",
    "type: task, task: work, compensate: {task: undo}, retry: {max_attempts: 2, initial: 1s, jitter: 0}",
    "type: task, task: work, compensate: {task: undo}, repeat: {until: 'output > 4', every: 2s, max: 3}",
    "type: transform, value: 1, compensate: {task: undo}",
    "type: wait, duration: 2s, compensate: {task: undo}",
    "type: task, task: work",
)
ACTIONS = (
    *("finish", "finish", "finish", "fail", "wait", "several", "stop", "late", "reload"),
    *("pause", "resume", "cancel", "terminate", "redrive", "compensate"),
)
CONTROLS = frozenset({"pause", "resume", "cancel", "terminate", "redrive", "compensate"})
actions = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11)), min_size=10, max_size=40)


@st.composite
def definitions(draw: st.DrawFn) -> str:
    """A few steps, each leading to some of those after it."""
    count = draw(st.integers(2, 6))
    lines = []
    for number in range(count):
        later = range(number + 1, count)
        followers = sorted(draw(st.sets(st.sampled_from(later), max_size=2))) if later else []
        parts = [f"ref: s{number}", draw(st.sampled_from(BODIES)), "join: any"]
        if followers:
            parts.append(f"next: {{done: [{', '.join(f's{follower}' for follower in followers)}]}}")
        lines.append("  - {" + ", ".join(parts) + "}")
    targets = {word.strip("[]{},") for line in lines for word in line.partition("done:")[2].split()}
    lines = [line if f"s{number}" in targets else line.replace(", join: any", "") for number, line in enumerate(lines)]
    head = "context: {n: 0}\n" + draw(st.sampled_from(["", "timeout: 20s\n"]))
    defer = draw(st.sampled_from(["", "defer: [{ref: last, type: task, task: work}]\n"]))
    return head + defer + "steps:\n" + "\n".join(lines)


class Subject:
    """A run to which things happen."""

    def __init__(self, text: str) -> None:
        self.run = Driver(text, {}, run_id="0198f5d2-0000-7000-8000-000000000001")
        self._earlier: list[AttemptFinished] = []
        self._requests = 0

    def act(self, action: str, choice: int) -> None:
        """Let something happen, where it can."""
        run = self.run
        if action in CONTROLS:
            self._request(action, choice)  # type: ignore[arg-type]
        elif action == "wait":
            run.advance((0.5, 1, 2, 11)[choice % 4])
        elif action == "reload":  # another host goes on from the journal
            run.state = run.folded()
        elif action == "late":
            if self._earlier:
                run.tick(results=[self._earlier[choice % len(self._earlier)]])
        elif run.in_flight:
            self._end_attempts(action, choice)

    def _end_attempts(self, action: str, choice: int) -> None:
        run = self.run
        flying = sorted(run.in_flight)
        if action == "several":
            run.tick(results=[run.success(ref, choice) for ref in flying[:2]])
            return
        ref = flying[choice % len(flying)]
        result = AttemptFinished(node=ref, generation=run.in_flight[ref], outcome="succeeded", output=choice)
        self._earlier.append(result)
        if action == "finish":
            run.finish(ref, choice)
        elif action == "stop":
            run.stopped(ref)
        else:
            run.fail(ref, retryable=choice % 3 != 0)

    def _request(self, kind: ControlKind, choice: int) -> None:
        self._requests += 1
        arguments: dict[str, JsonValue] = {}
        refs = [ref for ref, node in self.run.program.nodes.items() if not node.is_defer]
        if kind == "redrive" and choice % 3 == 0:
            arguments["from"] = refs[choice % len(refs)]
        self.run.request(kind, f"request-{self._requests}", **arguments)


def follow(model: UndoModel, event: AnyEvent) -> None:
    """Take in one more event."""
    if isinstance(event, RunReopened):
        model.reopened({reset.node for reset in event.nodes})
    else:
        model.follow(event)


def check_undos(run: Driver) -> UndoModel:
    """The journal says what the model says, and the state remembers it."""
    model = UndoModel(run.program, pytest.fail)
    for event in run.events():
        follow(model, event)
    assert (run.state.undoable, run.state.not_undone) == (model.done, model.failed)
    return model


@settings(max_examples=400)
@given(definitions(), actions)
def test_whatever_happens_undos_are_in_order_once_and_told_truly(text: str, played: list[tuple[str, int]]):
    subject = Subject(text)
    for action, choice in played:
        subject.act(action, choice)
    check_undos(subject.run)
    check_journal(subject.run)


@settings(max_examples=150)
@given(definitions(), actions, st.sampled_from(["cancel", "fail"]))
def test_a_run_that_is_pushed_to_a_bad_end_has_undone_all(text: str, played: list[tuple[str, int]], end: str):
    subject = Subject(text)
    for action, choice in played:
        subject.act(action, choice)
    run = subject.run
    subject.act("resume", 0)
    subject.act("cancel" if end == "cancel" else "fail", 0)
    for _ in range(60):
        if run.state.is_terminal:
            break
        for ref in sorted(run.in_flight):
            run.finish(ref, 1)
        run.advance(11)
    assert run.state.is_terminal, "something waits for ever"
    model = check_undos(run)
    if run.state.status in ("failed", "cancelled"):
        assert not model.done


def test_the_model_finds_what_is_wrong():
    """Undos in the order of completion, as a mistake would give them, are found out."""
    run = Driver("""
    steps:
      - {ref: a, type: task, task: t, compensate: {task: u}}
      - {ref: b, type: task, task: t, compensate: {task: u}}
      - {ref: c, type: task, task: t}
    """)
    run.finish("a")
    run.finish("b")
    run.fail("c")
    events = run.events()
    run.finish("b.compensate")
    check_undos(run)
    wrongs: list[str] = []
    model = UndoModel(run.program, wrongs.append)
    for event in events[:-1]:
        follow(model, event)
    (wrong,) = [event for event in run.events()[len(events) :] if getattr(event, "node", "") == "a.compensate"]
    model.follow(wrong)
    assert wrongs == ["a.compensate is out of order"]
