"""What handles and clients send and ask, async and blocking, on a store in memory."""

import asyncio
from pathlib import Path

import pytest

import ductor
from ductor.definitions.build import approval, chain, human_loop, interaction, task, wait, workflow
from ductor.journal.clock import SystemClock
from ductor.journal.memory import MemoryStore
from ductor.testing import Engine, virtual_time

ASKING = workflow(
    "asking",
    approval("sign_off", approvers=["ada", "bo"], title="Fine?", next={"approved": "look"}),
    *chain(
        human_loop("look", title="Look"),
        interaction("ask", ask="How many?", schema={"type": "integer"}),
        wait("go", signal="go"),
        wait("seen", event="seen", match="event.payload == trigger"),
    ),
    input={"type": "integer"},
    output="${[steps.ask.output, steps.go.output, steps.seen.output]}",
)


async def parked(run: ductor.RunHandle) -> list[str]:
    return [step.ref for step in (await run.status()).steps if step.status == "waiting"]


async def settled() -> None:
    """Everything that happens at this moment has happened: virtual time goes on only then."""
    await asyncio.sleep(1)


@virtual_time
async def test_everything_that_a_run_waits_for_can_be_sent():
    async with Engine(definitions=ASKING) as engine:
        run = await engine.start("asking", 5)
        await settled()
        (entry,) = await engine.inbox(person="ada")
        assert (entry.run_id, entry.item.node) == (run.run_id, "sign_off")
        assert (await run.explain()).steps[0].kind == "approval"
        await run.approve("sign_off", by="ada", comment="yes")
        await settled()
        with pytest.raises(ductor.MessageRefusedError, match="does not wait"):
            await run.reject("sign_off", by="bo")
        await run.case("look", by="bo", assignee="ada", comment="see")
        await settled()
        assert [entry.item.people for entry in await engine.inbox()] == [("ada",)]
        await run.case("look", by="ada", status="resolved")
        await settled()
        with pytest.raises(ductor.MessageRefusedError) as caught:
            await run.reply("ask", "many")
        assert len(caught.value.problems) == 1
        await run.reply("ask", 7)
        receipt = await run.signal("go", {"on": True}, request_id="g1")
        again = await run.signal("go", None, request_id="g1")
        assert (receipt.verdict, again.verdict, again.position) == ("accepted", "duplicate", receipt.position)
        await settled()
        taken = await run.receipt("g1")
        assert taken is not None
        assert taken.disposition == "consumed"
        assert await run.receipt("g2") is None
        await engine.publish_event("seen", 4)
        await settled()
        assert await parked(run) == ["seen"]
        event = await engine.publish_event("seen", 5, event_id="e1")
        assert (await engine.publish_event("seen", 5, event_id="e1")).verdict == "duplicate"
        assert event.verdict == "accepted"
        assert await run.result() == [7, {"on": True}, 5]


@virtual_time
async def test_controls_of_one_run_and_of_many_are_on_record():
    async with Engine(
        definitions=workflow("work", *chain(wait("go", signal="go"), task("do", "do"))),
        mocks={"do": [ductor.NonRetryable("no", type="Broken"), 1]},
    ) as engine:
        run, other = await engine.start("work"), await engine.start("work")
        await run.pause(by="op", reason="lunch", request_id="p1")
        await run.pause(by="op", request_id="p2")
        await settled()
        first, second = await run.control("p1"), await run.control("p2")
        assert first is not None
        assert second is not None
        assert (first.disposition, second.disposition) == ("applied", "refused")
        assert "paused already" in second.outcome
        assert (await run.status()).status == "paused"
        receipt = await engine.resume_all("work", by="op", request_id="all")
        assert (await engine.resume_all("work", request_id="all")).verdict == "duplicate"
        await asyncio.sleep(25_000)  # the host carries them on with one of its sweeps
        bulk = await engine.bulk(receipt.bulk_id)
        assert bulk is not None
        assert (bulk.requested, bulk.finished_at_us is not None) == (2, True)
        await run.signal("go")
        with pytest.raises(ductor.RunFailedError, match="Broken"):
            await run.result()
        await run.redrive(by="op")
        await settled()
        assert await run.result() == {"do": 1}
        await run.redrive(["do"], input={"x": 1}, by="op", request_id="r2")
        await settled()
        assert await run.result() == {"do": 1}
        assert [call.input for call in engine.calls] == [{}, {}, {"x": 1}]
        await engine.cancel_all(by="op")
        await asyncio.sleep(25_000)
        with pytest.raises(ductor.RunCancelledError):
            await other.result()
        await run.redrive(["go"])
        await engine.pause_all("work")
        await asyncio.sleep(25_000)
        assert (await run.status()).status == "paused"
        await engine.terminate_all()
        await asyncio.sleep(25_000)
        with pytest.raises(ductor.RunTerminatedError):
            await run.result()


def test_the_blocking_client_sends_the_same(tmp_path: Path):
    with ductor.SyncClient(directory=tmp_path / "server") as client:
        client.publish(ASKING)
        run = client.start("asking", 5)
        assert run.signal("go", 1, request_id="s1").verdict == "accepted"
        assert run.signal("go", request_id="s1").verdict == "duplicate"
        assert run.receipt("s1") is not None
        assert client.publish_event("seen", 1, event_id="e1").verdict == "accepted"
        assert list(client.inbox()) == []
        assert run.pause(request_id="p1").verdict == "accepted"
        assert run.control("p1") is not None
        assert run.explain().status == "pending"
        assert client.bulk(client.cancel_all().bulk_id) is not None
        with pytest.raises(ductor.MessageRefusedError):
            run.approve("sign_off", by="ada")


async def test_a_transaction_needs_postgresql():
    store = MemoryStore(SystemClock())
    await store.open()
    async with ductor.Client(store) as client:
        with pytest.raises(ductor.NotInPostgresError, match="MemoryStore"):
            await client.publish_event("seen", connection=object())  # type: ignore[arg-type]
