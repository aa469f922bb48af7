"""The Python face: a host carries runs out, handles tell what became of them, errors carry fields."""

import asyncio
import inspect
import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

import ductor
from ductor.definitions.build import task, workflow
from ductor.journal.clock import SystemClock
from ductor.journal.memory import MemoryStore
from ductor.sync import SyncRunHandle
from ductor.testing import Engine, virtual_time
from tests.ductor.flows import ORDER, charge, charge_for_ever, reserve
from tests.postgres_fixtures import TEMPLATE


@pytest.fixture
async def store():
    made = MemoryStore(SystemClock())
    await made.open()
    yield made
    await made.close()


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    (tmp_path / "order.yaml").write_text(ORDER)
    return tmp_path


async def test_a_run_from_start_to_result(store, flows):
    async with ductor.Host(tasks=[reserve, charge], definitions=flows, database=store) as host:
        run = await host.start("order", {"order_id": "o-1"}, key="o-1")
        assert run.is_new
        assert await run.result(timeout=30) == {"charge": "c-o-1"}
        view = await run.status()
        assert (view.status, view.definition, view.key) == ("completed", "order", "o-1")
        assert [step.status for step in view.steps] == ["succeeded", "succeeded"]
        history = await run.history()
        assert [row.version for row in history] == list(range(1, view.version + 1))
        again = await host.start("order", {"order_id": "o-1"}, key="o-1")
        assert (again.run_id, again.is_new) == (run.run_id, False)
        assert [head.run_id for head in await host.runs()] == [run.run_id]
        assert await host.runs(statuses=["failed"]) == []
        assert (await host.health()).is_running


async def test_a_failed_run_raises_with_type_message_and_details(store, flows):
    async with ductor.Host(tasks=[reserve, charge], definitions=flows, database=store) as host:
        run = await host.start("order", {"order_id": "o-declined"})
        with pytest.raises(ductor.RunFailedError, match="Declined: no money") as caught:
            await run.result(timeout=timedelta(seconds=30))
        assert (caught.value.run_id, caught.value.type) == (run.run_id, "Declined")
        assert (caught.value.message, caught.value.details) == ("no money", {"code": 51})
        with pytest.raises(ductor.ControlRefusedError):
            await run.cancel()


@pytest.mark.parametrize(("verb", "error"), [("cancel", "RunCancelledError"), ("terminate", "RunTerminatedError")])
async def test_a_run_that_is_stopped(store, flows, verb, error):
    async with ductor.Host(tasks=[reserve, charge_for_ever], definitions=flows, database=store) as host:
        run = await host.start("order", {"order_id": "o-1"})
        with pytest.raises(ductor.WaitTimeoutError):
            await run.result(timeout=0.05)
        receipt = await getattr(run, verb)(by="boss", request_id="r-1")
        assert (receipt.verdict, receipt.request_id) == ("accepted", "r-1")
        with pytest.raises(getattr(ductor, error)) as caught:
            await run.result(timeout=30)
        assert caught.value.run_id == run.run_id


async def test_nothing_is_started_that_cannot_be(store, flows):
    async with ductor.Host(tasks=[reserve, charge], definitions=flows, database=store) as host:
        with pytest.raises(ductor.DefinitionNotFoundError, match="did you mean 'order'"):
            await host.start("ordr", {})
        with pytest.raises(ductor.TriggerError, match="order_id"):
            await host.start("order")
        with pytest.raises(ductor.ValueRefusedError):
            await host.start("order", {"order_id": "o", "price": float("nan")})
        with pytest.raises(ductor.RunNotFoundError):
            await host.run("01999999-0000-7000-8000-000000000000").status()
        assert await host.runs() == []


async def test_a_client_starts_what_a_host_carries_out(store, flows):
    async with ductor.Client(store) as client:
        await client.publish(flows)
        run = await client.start("order", {"order_id": "o-9"})
        assert (await run.status()).status == "pending"
        async with ductor.Host(tasks=[reserve, charge], database=store):
            assert await run.result(timeout=30) == {"charge": "c-o-9"}


async def test_tenants_do_not_see_each_others_runs(store, flows):
    async with ductor.Host(tasks=[reserve, charge], definitions=flows, database=store, tenant="a") as host:
        run = await host.start("order", {"order_id": "o-1"})
        await run.result(timeout=30)
        async with ductor.Client(store, tenant="b") as other:
            assert await other.runs() == []
            with pytest.raises(ductor.RunNotFoundError):
                await other.run(run.run_id).status()
            with pytest.raises(ductor.DefinitionNotFoundError):
                await other.start("order", {"order_id": "o-1"})


async def test_definitions_made_in_python_and_plain_functions(store):
    def double(number: int) -> int:
        return 2 * number

    document = workflow("doubling", task("twice", "double", input={"number": "${trigger.number}"}))
    async with ductor.Host(tasks=[double], definitions=document, database=store) as host:
        run = await host.start("doubling", {"number": 21})
        assert await run.result(timeout=30) == {"twice": 42}


async def test_a_missing_handler_is_said_at_start(store, flows, caplog):
    async with ductor.Host(tasks=[reserve], definitions=flows, database=store) as host:
        assert "no handler 'payments.charge' here, which order needs" in caplog.text
        run = await host.start("order", {"order_id": "o-1"})
        while (await host.health()).waiting_for_handler != {"payments.charge": 1}:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0)
        host.registry.register(charge)
        assert await run.result(timeout=30) == {"charge": "c-o-1"}


async def test_every_problem_of_every_file_stops_the_start(store, flows):
    (flows / "broken.yaml").write_text("ductor: 1\nname: broken\nsteps:\n  - {ref: A, type: taks}\n")
    (flows / "other.json").write_text('{"ductor": 1, "name": "other", "steps": [}')
    with pytest.raises(ductor.DefinitionError) as caught:
        async with ductor.Host(tasks=[reserve], definitions=flows, database=store):
            raise AssertionError("it must not start")
    files = {Path(problem.place.file).name for problem in caught.value.problems}
    assert files == {"broken.yaml", "other.json"}


async def test_what_cannot_run_yet_is_not_published(store, flows, monkeypatch):
    monkeypatch.setattr("ductor.client.RUNNABLE_TYPES", frozenset({"transform"}))
    async with ductor.Client(store) as client:
        with pytest.raises(ductor.DefinitionError, match="`reserve`"):
            await client.publish(flows)
        assert await client.engine.store.definitions() == []


async def test_a_host_that_is_not_entered_says_so(store):
    with pytest.raises(RuntimeError, match="inside `async with`"):
        await ductor.Host(database=store).start("order", {})


async def test_a_signal_ends_the_wait_of_a_host(store):
    async with ductor.Host(database=store) as host:
        waiting = asyncio.create_task(host.run_until_stopped())
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(waiting, 10)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_a_host_lives_as_long_as_an_application(store):
    host = ductor.Host(database=store)
    async with host.lifespan(object()):
        assert (await host.health()).is_running
    with pytest.raises(RuntimeError):
        await host.health()


def test_the_sync_client_makes_the_same_calls(tmp_path, postgres_server, flows):
    async def prepare() -> str:
        await postgres_server.create_database("sync_client", template=TEMPLATE)
        return str(postgres_server.dsn("sync_client"))

    dsn = asyncio.run(prepare())
    with ductor.SyncClient(dsn) as client:
        client.publish(flows)
        run = client.start("order", {"order_id": "o-1"}, key="k")
        assert run.is_new
        assert run.status().status == "pending"
        assert len(run.history()) == 1
        replay = client.replay(run.run_id)
        assert (replay.run_id, replay.version, replay.verify().holds) == (run.run_id, 1, True)
        with pytest.raises(ductor.WaitTimeoutError):
            run.result(timeout=0.01)
        assert run.terminate(by="boss").verdict == "accepted"
        assert [head.run_id for head in client.runs(definition="order")] == [run.run_id]
        with pytest.raises(ductor.RunNotFoundError):
            client.run("01999999-0000-7000-8000-000000000000").cancel()


def test_every_public_name_is_there():
    assert all(getattr(ductor, name) is not None for name in ductor.__all__)
    assert set(ductor.__all__) <= set(dir(ductor))
    with pytest.raises(AttributeError, match="nonsense"):
        ductor.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("asynchronous", "blocking"), [(ductor.Client, ductor.SyncClient), (ductor.RunHandle, SyncRunHandle)]
)
def test_the_blocking_client_has_every_call_of_the_other(asynchronous: type, blocking: type):
    calls = {name for name, one in inspect.getmembers(asynchronous, inspect.iscoroutinefunction) if name[0] != "_"}
    assert calls - {"open", "close"} <= set(dir(blocking))


ROUNDS = """\
ductor: 1
name: rounds
context: {n: 0}
repeat: {until: context.n >= 2, max: 5}
steps:
  - {ref: each, type: scatter, items_expr: "range(0, context.n + 1)", do: {type: task, task: work}, next: count}
  - {ref: count, type: transform, value: 0, effects: {n: "${context.n + 1}"}}
"""


@virtual_time
async def test_the_children_of_a_step_are_those_of_the_latest_run_of_a_chain_or_of_the_very_one(tmp_path: Path):
    (tmp_path / "rounds.yaml").write_text(ROUNDS)
    async with Engine(definitions=tmp_path, mocks={"work": [1]}) as engine:
        run = await engine.start("rounds")
        await run.result()
        assert (await run.children_of_step("each")).counts.total == 2
        assert (await run.children_of_step("each", follows=False)).counts.total == 1
