"""Races: whatever comes first, second or at once, nothing is lost, done twice, or done too early."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ductor.journal.events import ControlReceived, Message, MessageTaken
from tests.actors.tick.driver import SECOND_US, Driver, settlements, timer_ends
from tests.actors.tick.interleavings import Action, Played, actions, check_journal, definitions


@settings(max_examples=400)
@given(definitions(), actions)
def test_whatever_happens_in_any_order_a_journal_is_sound(text: str, played: list[Action]):
    subject = Played(text)
    for action, choice in played:
        subject.act(action, choice)
    check_journal(subject.run)


@settings(max_examples=150)
@given(definitions(), actions)
def test_a_run_that_is_only_pushed_on_comes_to_its_end(text: str, played: list[Action]):
    subject = Played(text)
    for action, choice in played:
        subject.act(action, choice)
    run = subject.run
    subject.act("resume", 0)
    for _ in range(60):
        if run.state.is_terminal:
            break
        for ref in sorted(run.in_flight):
            run.finish(ref, 1)
        for name in ("sent", "seen", "stop"):
            run.event(name, 100)
        run.signal("go")
        for ref, node in list(run.state.nodes.items()):
            if node.waiting == "approval":
                for person in ("ann", "bob", "cy"):
                    run.vote(ref, "approved", person)
            elif node.waiting == "interaction":
                run.work_case(ref, "ann", status="resolved")
                run.reply(ref, 1)
        run.advance(3)
    assert run.state.is_terminal, "something waits for ever"
    assert not run.waits
    assert not run.inbox
    assert "buffered" not in run.dispositions.values()
    check_journal(run)


@settings(max_examples=150)
@given(definitions(), actions)
def test_a_redrive_never_loses_what_succeeded(text: str, played: list[Action]):
    subject = Played(text)
    run = subject.run
    for action, choice in played:
        if action == "redrive":
            before = {ref: (n.output, n.generation) for ref, n in run.state.nodes.items() if n.status == "succeeded"}
            was_terminal = run.state.is_terminal
            run.request("redrive", f"again-{run.state.version}-{choice}")
            if was_terminal:
                for ref, (output, generation) in before.items():
                    node = run.state.nodes[ref]
                    if not run.program.nodes[ref].is_defer:
                        assert (node.status, node.output, node.generation) == ("succeeded", output, generation)
        else:
            subject.act(action, choice)
    check_journal(run)


# --- signal before, during and after its wait -------------------------------------------------------------------------


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["signal", "finish", "tick", "both"]), min_size=1, max_size=14))
def test_each_wait_takes_the_next_signal_wherever_it_came(moves: list[str]):
    """Three tasks, each followed by a wait of one name: the n-th wait has the n-th signal."""
    run = Driver("""
    steps:
      - {ref: t0, type: task, task: t, next: w0}
      - {ref: w0, type: wait, signal: go, next: t1}
      - {ref: t1, type: task, task: t, next: w1}
      - {ref: w1, type: wait, signal: go, next: t2}
      - {ref: t2, type: task, task: t, next: w2}
      - {ref: w2, type: wait, signal: go}
    """)
    sent = finished = 0
    for move in moves:
        results, messages = [], []
        if move in ("finish", "both") and run.in_flight:
            (ref,) = run.in_flight
            results.append(run.success(ref))
            finished += 1
        if move in ("signal", "both"):
            messages.append(run.message("signal", "go", sent))
            sent += 1
        run.tick(results=results, messages=messages)
    done = min(sent, finished)
    outputs = [run.state.nodes[f"w{n}"].output for n in range(3) if run.statuses().get(f"w{n}") == "succeeded"]
    assert outputs == list(range(done))
    takers = [event for event in run.events() if isinstance(event, MessageTaken)]
    assert [taken.message_id for taken in takers] == [f"m-{n + 1}" for n in range(done)]
    if run.state.is_terminal:
        assert set(run.dispositions.values()) <= {"consumed", "undelivered"}
    else:
        assert len(run.state.inbox) == sent - done


# --- timer against signal ---------------------------------------------------------------------------------------------

TIMED = """
steps:
  - {ref: w, type: wait, signal: go, timeout: 5s, next: {success: after, timeout: late}}
  - {ref: after, type: wait, signal: never}
  - {ref: late, type: wait, signal: never}
"""
DEADLINE_US = 6 * SECOND_US


@settings(max_examples=100)
@given(st.integers(-3, 3), st.integers(0, 6), st.booleans())
@example(0, 0, True)
def test_a_signal_stored_by_the_deadline_wins_and_a_later_one_loses(stored: int, taken_up: int, is_swept: bool):
    """The time at which it was stored decides, not the one at which a tick takes it up."""
    run = Driver(TIMED)
    signal = run.message("signal", "go", at_us=DEADLINE_US + stored)
    run.now_us = max(signal.at_us, DEADLINE_US + taken_up)
    run.tick(messages=[signal])
    if is_swept:
        run.tick()
    expected = "success" if stored <= 0 else "timeout"
    assert run.state.nodes["w"].outcome == expected
    assert timer_ends(run.events(), "w") == (expected == "timeout")
    assert run.disposition(signal.id) == ("consumed" if stored <= 0 else "buffered")
    assert len(settlements(run.events(), "w")) == 1


@settings(max_examples=100)
@given(st.permutations(["ann", "bob", "cy"]), st.lists(st.integers(-2, 2), min_size=3, max_size=3), st.integers(1, 3))
def test_votes_against_the_timeout_of_their_approval(people: list[str], times: list[int], quorum: int):
    run = Driver(f"""
    steps:
      - {{ref: a, type: approval, approvers: [ann, bob, cy], quorum: {quorum}, timeout: 5s, next: {{timeout: late}}}}
      - {{ref: late, type: wait, signal: never}}
      - {{ref: beside, type: wait, signal: never}}
    """)
    ballot = [
        run.message("vote", payload={"decision": "approved"}, node="a", by=person, at_us=DEADLINE_US + at)
        for person, at in zip(people, sorted(times), strict=True)
    ]
    run.now_us = DEADLINE_US + 10
    run.tick(messages=ballot)
    in_time = sum(at <= 0 for at in times)
    assert run.state.nodes["a"].outcome == ("approved" if in_time >= quorum else "timeout")
    assert len(settlements(run.events(), "a")) == 1
    assert run.dispositions.keys() == {vote.id for vote in ballot}


# --- cancel against completion ----------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(st.permutations(["cancel", "result", "signal", "timer"]), st.lists(st.booleans(), min_size=4, max_size=4))
def test_a_cancel_against_everything_that_would_complete_the_run(order: list[str], together: list[bool]):
    """Each comes in a tick of its own, or in that of the one before it."""
    run = Driver("""
    steps:
      - {ref: t, type: task, task: t, next: j}
      - {ref: w, type: wait, signal: go, next: j}
      - {ref: d, type: wait, duration: 5s, next: j}
      - {ref: j, type: transform, value: 1}
    """)
    result = run.success("t", 7)
    ticks: list[list[str]] = []
    for move, joins in zip(order, together, strict=True):
        if joins and ticks:
            ticks[-1].append(move)
        else:
            ticks.append([move])
    cancelled_in = next(number for number, moves in enumerate(ticks) if "cancel" in moves)
    for moves in ticks:
        if "timer" in moves:
            run.now_us += 5 * SECOND_US
        signals = [run.message("signal", "go")] if "signal" in moves else []
        control = ControlReceived(request_id="c", kind="cancel") if "cancel" in moves else None
        run.tick(control=control, results=[result] if "result" in moves else [], messages=signals)
    run.advance(60)
    before = {move for moves in ticks[:cancelled_in] for move in moves}
    completes = before == {"result", "signal", "timer"}
    assert run.state.status == ("completed" if completes else "cancelled")
    assert bool(run.refusals) == completes
    assert run.statuses()["w"] == ("succeeded" if "signal" in before else "cancelled")
    assert timer_ends(run.events(), "d") == ("timer" in before)
    assert run.disposition("m-1") == ("consumed" if "signal" in before else "undelivered")
    check_journal(run)


# --- duplicated and reordered delivery --------------------------------------------------------------------------------


@settings(max_examples=100)
@given(st.data())
def test_results_delivered_again_and_in_any_order_are_applied_once(data: st.DataObject):
    run = Driver("""
    steps:
      - {ref: a, type: task, task: t, next: j}
      - {ref: b, type: task, task: t, next: j}
      - {ref: c, type: task, task: t, next: j}
      - {ref: j, type: task, task: t}
    """)
    results = [run.success(ref, ref) for ref in "abc"]
    deliveries = data.draw(st.permutations(results * 3))
    while deliveries:
        size = data.draw(st.integers(1, len(deliveries)))
        run.tick(results=list(deliveries[:size]))
        deliveries = deliveries[size:]
    assert [run.state.nodes[ref].output for ref in "abc"] == ["a", "b", "c"]
    assert len(run.superseded) == 6
    assert run.state.nodes["j"].generation == 1
    check_journal(run)


@settings(max_examples=100)
@given(st.data())
def test_events_in_any_order_and_any_batches_complete_a_set_alike(data: st.DataObject):
    run = Driver("""
    steps:
      - {ref: s, type: event_set, events: [{name: a}, {name: b}, {name: c}]}
      - {ref: w, type: wait, signal: never}
    """)
    sent: list[Message] = [run.message("event", name, id=f"event:{name}") for name in "abc"]
    order = data.draw(st.permutations(sent))
    left = list(order)
    while left:
        size = data.draw(st.integers(1, len(left)))
        run.tick(messages=left[:size])
        left = left[size:]
    output = run.state.nodes["s"].output
    assert isinstance(output, dict)
    events = output["events"]
    assert isinstance(events, list)
    assert [event["id"] for event in events if isinstance(event, dict)] == [m.id.removeprefix("event:") for m in order]


# --- pause against everything -----------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=5))
def test_a_duration_is_as_long_as_it_says_less_the_pauses(periods: list[tuple[int, int]]):
    """Periods of going on and of being paused, by turns: only the former count."""
    run = Driver("steps: [{ref: w, type: wait, duration: 10s}]")
    counted = 0
    for going, paused in periods:
        if run.state.is_terminal:
            break
        run.advance(going)
        counted += going
        assert run.state.is_terminal == (counted >= 10)
        if not run.state.is_terminal:
            run.request("pause", f"p-{run.state.version}")
            run.advance(paused)
            run.request("resume", f"r-{run.state.version}")
            assert not run.state.is_terminal
    if counted < 10:
        run.now_us += (10 - counted) * SECOND_US - 1
        assert run.tick().events == []
        run.now_us += 1
        run.tick()
    assert run.state.status == "completed"


@settings(max_examples=150)
@given(definitions(), actions, st.integers(1, 30))
def test_a_pause_without_anything_in_it_changes_nothing_but_time(text: str, played: list[Action], pause_s: int):
    """The same things happen to two runs, one of which is paused between each two: they settle alike.

    Fixed times and old events are left out: a pause does not move them, and so the two may well differ in them.
    """
    text = text.replace("until: 1970-01-01T00:00:09Z", "duration: 9s")
    plain, paused = Played(text, has_old_events=False), Played(text, has_old_events=False)
    for action, choice in played:
        if action in ("pause", "resume", "redrive"):
            continue
        for subject in (plain, paused):
            subject.act(action, choice)
        run = paused.run
        if run.state.closing is None and not run.state.is_terminal:
            run.request("pause", f"p-{run.state.version}")
            run.advance(pause_s)
            run.request("resume", f"r-{run.state.version}")
    assert paused.run.statuses() == plain.run.statuses()
    outcomes = [{ref: node.outcome for ref, node in subject.run.state.nodes.items()} for subject in (plain, paused)]
    assert outcomes[0] == outcomes[1]
