"""Parked runs on a host: signals, votes, events, pauses and redrives, from sender to outcome."""

import asyncio

import pytest

from ductor.actors.errors import ControlRefusedError, MessageRefusedError
from ductor.actors.host import EngineHost
from ductor.actors.tasks import task
from ductor.journal.events import TimerFired
from ductor.testing import virtual_time
from tests.actors.hosting import Bench

WAIT = """
steps:
  - {ref: go, type: wait, signal: go, timeout: 1h, next: {success: after, timeout: late}}
  - {ref: after, type: transform, value: "${steps.go.output}"}
  - {ref: late, type: transform, value: late}
"""


async def parked(host: EngineHost) -> str:
    """A run that waits."""
    started = await host.start("subject")
    return started.run_id


@virtual_time
async def test_a_signal_wakes_its_wait():
    bench = Bench()
    async with bench.host(WAIT, bench.handler()) as host:
        run_id = await parked(host)
        receipt = await host.signal(run_id, "go", {"n": 1}, request_id="s-1")
        assert receipt.verdict == "accepted"
        assert (await host.outcome(run_id)).output == {"after": {"n": 1}}
        known = await host.receipt(run_id, "s-1")
        assert known is not None
        assert known.disposition == "consumed"


@virtual_time
async def test_a_duplicate_signal_gets_the_first_receipt_and_a_closed_run_says_so():
    bench = Bench()
    async with bench.host(WAIT, bench.handler()) as host:
        run_id = await parked(host)
        first = await host.signal(run_id, "other", 1, request_id="s-1")
        second = await host.signal(run_id, "other", 2, request_id="s-1")
        assert (second.verdict, second.position) == ("duplicate", first.position)
        await host.signal(run_id, "go")
        await host.outcome(run_id)
        with pytest.raises(MessageRefusedError, match="closed: completed"):
            await host.signal(run_id, "go")
        await asyncio.sleep(2)
        unheard = await host.receipt(run_id, "s-1")
        assert unheard is not None
        assert unheard.disposition == "undelivered"


@virtual_time
async def test_a_signal_before_its_wait_is_kept_for_it():
    bench = Bench()
    text = """
    steps:
      - {ref: a, type: task, task: work, next: go}
      - {ref: go, type: wait, signal: go}
    """
    async with bench.host(text, bench.handler(lambda n: asyncio.sleep(10, n))) as host:
        run_id = await parked(host)
        await host.signal(run_id, "go", "early")
        assert (await host.outcome(run_id)).output == {"go": "early"}


@virtual_time
async def test_many_signals_reach_a_loop_of_waits_in_order():
    bench = Bench()
    text = """
    context: {seen: []}
    on: [{signal: tick, effects: {seen: "${context.seen + [event.payload]}"}}]
    steps: [{ref: stop, type: wait, signal: stop}]
    output: "${context.seen}"
    """
    async with bench.host(text, bench.handler()) as host:
        run_id = await parked(host)
        for number in range(50):
            await host.signal(run_id, "tick", number)
        await host.signal(run_id, "stop")
        assert (await host.outcome(run_id)).output == list(range(50))


@virtual_time
async def test_the_timeout_edge_is_taken_on_time():
    bench = Bench()
    async with bench.host(WAIT, bench.handler()) as host:
        run_id = await parked(host)
        before = bench.clock.now_us()
        assert (await host.outcome(run_id)).output == {"late": "late"}
        assert 3_600_000_000 <= bench.clock.now_us() - before < 3_600_100_000


APPROVAL = """
steps:
  - {ref: sign, type: approval, approvers: [ann, bob, cid], quorum: 2, title: "Pay ${trigger.n}?", next: {approved: yes_, rejected: no_}}
  - {ref: yes_, type: transform, value: "${steps.sign.output.votes}"}
  - {ref: no_, type: transform, value: no}
"""  # noqa: E501 - one line a step


@virtual_time
async def test_people_decide_and_the_inbox_lists_what_waits_for_whom():
    bench = Bench()
    async with bench.host(APPROVAL, bench.handler()) as host:
        started = await host.start("subject", {"n": 7})
        await asyncio.sleep(1)
        (entry,) = await host.inbox(person="bob")
        assert (entry.run_id, entry.item.title, entry.item.people) == (started.run_id, "Pay 7?", ("ann", "bob", "cid"))
        assert await host.inbox(person="eve") == []
        with pytest.raises(MessageRefusedError, match="may not vote"):
            await host.vote(started.run_id, "sign", "approved", by="eve")
        await host.vote(started.run_id, "sign", "approved", by="ann", comment="fine")
        await asyncio.sleep(1)
        with pytest.raises(MessageRefusedError, match="voted already"):
            await host.vote(started.run_id, "sign", "rejected", by="ann", request_id="again")
        await host.vote(started.run_id, "sign", "approved", by="bob")
        outcome = await host.outcome(started.run_id)
        assert isinstance(outcome.output, dict)
        votes = outcome.output["yes_"]
        assert [vote["by"] for vote in votes] == ["ann", "bob"]  # type: ignore[union-attr, index, call-overload]
        assert await host.inbox() == []


@virtual_time
async def test_a_reply_that_does_not_fit_is_refused_with_every_problem():
    bench = Bench()
    text = """
    steps:
      - ref: ask
        type: interaction
        ask: How many?
        schema: {type: object, required: [n], properties: {n: {type: integer}, why: {type: string}}}
    """
    async with bench.host(text, bench.handler()) as host:
        run_id = await parked(host)
        await asyncio.sleep(1)
        with pytest.raises(MessageRefusedError) as refused:
            await host.reply(run_id, "ask", {"n": "three", "why": 4})
        assert len(refused.value.problems) == 2
        await host.reply(run_id, "ask", {"n": 3})
        assert (await host.outcome(run_id)).output == {"ask": {"n": 3}}


@virtual_time
async def test_a_case_is_worked_on_until_it_is_resolved():
    bench = Bench()
    text = "steps: [{ref: look, type: human_loop, title: Odd payment, assignee: ann}]"
    async with bench.host(text, bench.handler()) as host:
        run_id = await parked(host)
        await asyncio.sleep(1)
        await host.work_case(run_id, "look", by="ann", comment="hm", assignee="bob")
        await asyncio.sleep(1)
        assert [entry.item.people for entry in await host.inbox()] == [("bob",)]
        await host.work_case(run_id, "look", by="bob", status="resolved")
        output = (await host.outcome(run_id)).output
        assert isinstance(output, dict)
        case = output["look"]
        assert isinstance(case, dict)
        assert (case["status"], case["assignee"]) == ("resolved", "bob")


EVENT = """
steps:
  - {ref: paid, type: wait, event: order.paid, match: "event.payload.id == trigger.id && event.payload.sum > 0"}
"""


@virtual_time
async def test_an_event_reaches_the_run_that_waits_for_it_and_no_other():
    bench = Bench()
    async with bench.host(EVENT, bench.handler()) as host:
        runs = [(await host.start("subject", {"id": number})).run_id for number in range(20)]
        await asyncio.sleep(1)
        receipt = await host.publish_event("order.paid", {"id": 7, "sum": 5}, event_id="e-1")
        assert receipt.verdict == "accepted"
        assert (await host.outcome(runs[7])).output == {"paid": {"id": 7, "sum": 5}}
        assert (await host.publish_event("order.paid", {"id": 8, "sum": 5}, event_id="e-1")).verdict == "duplicate"
        await asyncio.sleep(5)
        statuses = {(await host.view(run_id)).status for run_id in runs if run_id != runs[7]}
        assert statuses == {"waiting"}


@virtual_time
async def test_a_step_emits_an_event_that_another_run_waits_for_and_signals_it():
    bench = Bench()
    text = """
    steps:
      - ref: choose
        type: conditional
        when: trigger.sends
        next: {"true": say, "false": hear}
      - ref: say
        type: transform
        value: 5
        emit: [{event: said, payload: {n: "${output}"}}]
        signal: [{run: "${trigger.other}", name: direct, payload: "${output + 1}"}]
      - {ref: hear, type: wait, event: said, next: direct}
      - {ref: direct, type: wait, signal: direct}
    output: {heard: "${steps.hear.output}", direct: "${steps.direct.output}"}
    """
    async with bench.host(text, bench.handler()) as host:
        listener = (await host.start("subject", {"sends": False})).run_id
        await asyncio.sleep(1)
        await host.start("subject", {"sends": True, "other": listener})
        assert (await host.outcome(listener)).output == {"heard": {"n": 5}, "direct": 6}


@virtual_time
async def test_a_paused_run_stands_still_and_goes_on_where_it_was():
    bench = Bench()
    text = """
    steps:
      - {ref: a, type: task, task: work, next: rest}
      - {ref: rest, type: wait, duration: 1h, next: go}
      - {ref: go, type: wait, signal: go}
    """
    async with bench.host(text, bench.handler(lambda n: asyncio.sleep(10, n))) as host:
        run_id = await parked(host)
        await host.request(run_id, "pause", by="ops")
        await asyncio.sleep(7_200)  # the attempt ends meanwhile; its result waits
        view = await host.view(run_id)
        assert (view.status, view.steps[0].status) == ("paused", "running")
        await host.signal(run_id, "go", "kept")
        await host.request(run_id, "resume")
        await asyncio.sleep(60)
        assert (await host.view(run_id)).status == "waiting"
        await host.request(run_id, "pause")
        await asyncio.sleep(5_000)
        await host.request(run_id, "resume")
        resumed_at_us = bench.clock.now_us()
        assert (await host.outcome(run_id)).output == {"go": "kept"}
        fired = [event for row in await host.history(run_id) for event in row.events if isinstance(event, TimerFired)]
        assert len(fired) == 1
        assert 3_400_000_000 < bench.clock.now_us() - resumed_at_us < 3_600_000_000
        assert bench.calls == ["work"]


@virtual_time
async def test_a_failed_run_is_redriven_from_where_it_failed():
    bench = Bench()
    broken = [True]

    @task("fix")
    async def fix() -> str:
        if broken[0]:
            raise ValueError("broken")
        return "mended"

    text = """
    steps:
      - {ref: a, type: task, task: work, next: b}
      - {ref: b, type: task, task: fix, next: c}
      - {ref: c, type: task, task: work}
    """
    async with bench.host(text, bench.handler()) as host:
        host.registry.register(fix)
        run_id = await parked(host)
        assert (await host.outcome(run_id)).status == "failed"
        broken[0] = False
        await host.request(run_id, "redrive", by="ops")
        await asyncio.sleep(2)
        assert (await host.outcome(run_id)).output == {"c": 2}
        assert bench.calls == ["work", "work"]  # a was not done again
        with pytest.raises(ControlRefusedError):
            await host.request(run_id, "cancel")
        await host.request(run_id, "redrive", arguments={"from": ["c"]})
        await asyncio.sleep(2)
        assert (await host.outcome(run_id)).output == {"c": 3}


BODY_THAT_ASKS = """
steps:
  - ref: inner
    type: subworkflow
    do:
      steps:
        - {ref: release, type: approval, approvers: [ada], title: "?", next: {approved: ask}}
        - {ref: ask, type: interaction, ask: how many?, to: bo}
      output: "${steps.ask.output}"
"""


@virtual_time
async def test_what_an_inline_body_asks_is_answered_in_its_run():
    """The steps of the run are those of the body, not those of the definition that the body stands in."""
    bench = Bench()
    async with bench.host(BODY_THAT_ASKS, bench.handler()) as host:
        started = await host.start("subject")
        await asyncio.sleep(1)
        (entry,) = await host.inbox()
        assert entry.run_id != started.run_id
        await host.vote(entry.run_id, "release", "approved", by="ada")
        await asyncio.sleep(1)
        await host.reply(entry.run_id, "ask", {"n": 3}, by="bo")
        assert (await host.outcome(started.run_id)).output == {"inner": {"n": 3}}
