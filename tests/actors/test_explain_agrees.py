"""What is explained agrees with what the scheduler does next, whatever the definition and whatever has happened.

Random definitions are driven at random. After each action every step that has not settled must have exactly one reason,
and each reason is put to the test on a copy of the run: a tick of that moment begins what is `ready` and nothing else,
a deadline fires at its time and not before, and once everything that a join calls missing has settled, it is decided.
"""

import copy

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ductor.actors.reasons.reason import Reason
from ductor.actors.tick.compute import TickInputs, compute
from ductor.journal.codec import decode_state, encode_state
from ductor.journal.events import SETTLED_NODE_STATUSES, AttemptFinished, ControlKind
from ductor.journal.state import NodeState, RunState
from tests.actors.explaining import all_reasons, explained, send
from tests.actors.tick.driver import SECOND_US, Driver

BESIDE_STEPS = {"edge", "guard", "timeout", "no_worker", "dead_letter", "told_elsewhere"}
NOT_BEGUN = {"join", "deferred", "not_reached"}
JOINS = ["all", "every", "any", "2"]

BODIES = [
    "type: task, task: work",
    "type: task, task: work, on_error: continue, retry: {max_attempts: 2, initial: 5s}",
    "type: task, task: work, repeat: {until: 'iteration >= 1', every: 3s}",
    "type: wait, duration: 4s",
    "type: wait, duration: 9s, timeout: 6s, on_timeout: skip",
    "type: wait, signal: paid",
    "type: wait, event: sent, timeout: 20s, on_timeout: skip",
    "type: approval, approvers: [ann, ben], on_error: continue",
    "type: event_set, events: [{name: sent}, {name: seen}]",
    "type: transform, value: 1",
    "type: transform, value: 1, run_if: 'trigger.flag'",
]


@st.composite
def definitions(draw: st.DrawFn) -> str:
    """A few steps in a row of layers, each leading to some of those after it."""
    count = draw(st.integers(2, 7))
    followers: dict[int, list[int]] = {}
    incoming = dict.fromkeys(range(count), 0)
    for number in range(count - 1):
        chosen = draw(st.lists(st.integers(number + 1, count - 1), unique=True, max_size=3))
        followers[number] = sorted(chosen)
        for target in chosen:
            incoming[target] += 1
    steps = []
    for number in range(count):
        body = draw(st.sampled_from(BODIES))
        join = draw(st.sampled_from([join for join in JOINS if join != "2" or incoming[number] >= 2]))
        targets = ", ".join(f"s{target}" for target in followers.get(number, []))
        outcome = "approved" if "approval" in body else "success"
        edges = f", next: {{{outcome}: [{targets}]}}" if targets else ""
        joins = f", join: {join}" if incoming[number] else ""
        steps.append(f"  - {{ref: s{number}, {body}{joins}{edges}}}")
    defer = "defer: [{ref: last, type: task, task: work}]\n" if draw(st.booleans()) else ""
    return "timeout: 5m\n" + defer + "steps:\n" + "\n".join(steps)


ACTIONS = st.sampled_from(
    ["finish", "fail", "wait", "signal", "event", "other event", "vote", "pause", "resume", "cancel"]
)


def act(driver: Driver, action: str, choice: int) -> None:
    """Let something happen to the run, if it can."""
    flying = sorted(ref for ref in driver.in_flight if node_of(driver.state, ref).status == "running")
    asking = sorted(ref for ref, node in driver.state.nodes.items() if node.waiting == "approval")
    if driver.state.paused_at_us is not None and action not in ("resume", "cancel", "wait"):
        return
    if action in ("finish", "fail") and flying:
        ref = flying[choice % len(flying)]
        driver.finish(ref) if action == "finish" else driver.fail(ref)
    elif action == "wait":
        driver.advance(1 + choice % 7)
    elif action == "signal":
        send(driver, "signal", name="paid")
    elif action.endswith("event"):
        send(driver, "event", name="sent" if action == "event" else "seen")
    elif action == "vote" and asking:
        send(driver, "vote", node=asking[0], by=("ann", "ben")[choice % 2], payload={"decision": "approved"})
    elif action in ("pause", "resume", "cancel"):
        kind: ControlKind = action  # type: ignore[assignment]
        driver.request(kind, f"c-{driver.state.version}")


def node_of(state: RunState, ref: str) -> NodeState:
    """The state of a step; looking makes none."""
    return state.nodes.get(ref) or NodeState()


def copied(state: RunState) -> RunState:
    """The same run again, with all that the scheduler keeps."""
    again = decode_state(encode_state(state))
    again.payloads = dict(state.payloads)
    again.touched, again.agenda = copy.copy(state.touched), list(state.agenda)
    return again


def later(driver: Driver, at_us: int, results: list[AttemptFinished] | None = None) -> RunState:
    """What becomes of the run by then, if only these results come."""
    state = copied(driver.state)
    compute(driver.program, state, TickInputs(results=results or []), at_us)
    return state


def check(driver: Driver) -> None:
    reasons = [reason for reason in all_reasons(explained(driver)) if reason.ref and reason.kind not in BESIDE_STEPS]
    told = [reason.ref for reason in reasons]
    assert len(told) == len(set(told)), "a step is told twice"
    state = driver.state
    if state.is_terminal:
        assert set(told) == {ref for ref in driver.program.nodes if node_of(state, ref).status != "succeeded"}
        return
    unsettled = {ref for ref in driver.program.nodes if node_of(state, ref).status not in SETTLED_NODE_STATUSES}
    assert set(told) == unsettled
    now = later(driver, driver.now_us)
    for reason in reasons:
        check_now(reason, state, now)
        check_deadline(driver, reason)
    for reason in reasons:
        if reason.kind == "join" and state.paused_at_us is None:
            check_join(driver, reason)


def check_now(reason: Reason, state: RunState, now: RunState) -> None:
    """A tick of this moment: nothing moves but what is ready."""
    before, after = node_of(state, reason.ref).status, node_of(now, reason.ref).status
    if reason.kind == "ready":
        assert (after == "pending") == (state.paused_at_us is not None)
        if state.paused_at_us is None:
            assert (after == "skipped") == (not reason.details["will_run"]) or reason.children
    else:
        assert after == before, f"{reason.ref} is {reason.kind}, and becomes {after}"
    if reason.kind in NOT_BEGUN:
        assert before == "pending"


def check_deadline(driver: Driver, reason: Reason) -> None:
    """What ends by itself ends at its time."""
    if node_of(driver.state, reason.ref).status != "waiting" or driver.state.paused_at_us is not None:
        return
    if reason.until_us is None:
        assert node_of(later(driver, driver.now_us + 3 * SECOND_US), reason.ref).waiting is not None
        return
    generation = node_of(driver.state, reason.ref).generation
    just_before = later(driver, reason.until_us - 1)
    assert node_of(just_before, reason.ref).waiting is not None or just_before.is_terminal or just_before.closing
    fired = node_of(later(driver, reason.until_us), reason.ref)
    assert fired.waiting is None or fired.generation > generation


def check_join(driver: Driver, reason: Reason) -> None:
    """Once what it waits for has settled, it is decided."""
    missing = [child.ref for child in reason.children if child.kind not in ("edge", "guard")]
    assert missing
    state = copied(driver.state)
    if any(node_of(state, ref).status != "running" or not is_last_attempt(driver, ref) for ref in missing):
        return
    results = [
        AttemptFinished(node=ref, generation=node_of(state, ref).generation, outcome="succeeded") for ref in missing
    ]
    compute(driver.program, state, TickInputs(results=results), driver.now_us)
    assert node_of(state, reason.ref).status != "pending"


def is_last_attempt(driver: Driver, ref: str) -> bool:
    """Whether a success of the attempt in flight settles the step."""
    return getattr(driver.program.nodes[ref].step, "repeat", None) is None


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(definitions(), st.booleans(), st.lists(st.tuples(ACTIONS, st.integers(0, 9)), max_size=12))
def test_reasons_agree_with_what_the_scheduler_does(text: str, flag: bool, actions: list[tuple[str, int]]):
    driver = Driver(text, {"flag": flag})
    check(driver)
    for action, choice in actions:
        act(driver, action, choice)
        check(driver)
        if driver.state.is_terminal:
            return
