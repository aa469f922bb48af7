"""The engine for tests: the real one, in memory and virtual time, with answers for handlers."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

import ductor
from ductor.definitions.build import chain, task, workflow
from ductor.testing import Engine, NotInVirtualTimeError, virtual_time
from ductor.testing.calls import CallLog, Mock
from ductor.testing.clock import VirtualClock

ORDER = workflow(
    "order",
    *chain(
        task("reserve", "inventory.reserve", input={"sku": "${trigger.sku}"}),
        task("charge", "payments.charge", retry={"max_attempts": 3, "initial": "1h", "jitter": 0}),
    ),
)


@virtual_time
async def test_mocks_answer_in_turn_and_calls_are_noted():
    answers: dict[str, list[object]] = {
        "inventory.reserve": [{"id": "r"}],
        "payments.charge": [OSError("away"), ValueError, {"charge": 1}],
    }
    async with Engine(definitions=ORDER, mocks=answers) as engine:
        run = await engine.start("order", {"sku": "A1"})
        assert await run.result() == {"charge": {"charge": 1}}
        assert engine.calls.counts() == {"inventory.reserve": 1, "payments.charge": 3}
        (reserved,) = engine.calls.of("inventory.reserve")
        assert (reserved.step, reserved.input, reserved.attempt) == ("reserve", {"sku": "A1"}, 1)
        assert [call.attempt for call in engine.calls.of("payments.charge")] == [1, 2, 3]
        assert engine.clock.elapsed_us // 1_000_000 == 2 * 3_600  # two pauses


@virtual_time
async def test_answers_may_be_functions_and_may_take_time():
    async def later(value):
        await asyncio.sleep(5)
        return {"seen": value}

    answers = {"inventory.reserve": [lambda value: value["sku"].lower()], "payments.charge": [later]}
    async with Engine(definitions=ORDER, mocks=answers, takes_s={"inventory.reserve": 60}) as engine:
        run = await engine.start("order", {"sku": "A1"})
        assert await run.result() == {"charge": {"seen": {}}}
        steps = {step.ref: step.output for step in (await run.status()).steps}
        assert steps["reserve"] == "a1"
        assert engine.clock.elapsed_us // 1_000_000 == 65


@virtual_time
async def test_real_handlers_run_and_are_noted_and_mocks_replace_them():
    @ductor.task("inventory.reserve")
    def reserve(sku: str) -> str:
        return f"really {sku}"

    @ductor.task("payments.charge")
    async def charge() -> None:
        raise AssertionError("the mock stands in for it")

    async with Engine(tasks=[reserve, charge], definitions=ORDER, mocks={"payments.charge": ["mocked"]}) as engine:
        run = await engine.start("order", {"sku": "A1"})
        assert await run.result() == {"charge": "mocked"}
        assert (await run.status()).steps[0].output == "really A1"
        assert [call.task for call in engine.calls] == ["inventory.reserve", "payments.charge"]


@virtual_time
async def test_a_handler_given_twice_is_one_and_two_of_one_name_are_told_apart():
    def work() -> int:
        return 1

    def other() -> int:
        return 2

    async with Engine(tasks=[work, work], definitions=workflow("d", task("a", "work"))) as engine:
        assert await (await engine.start("d")).result() == {"a": 1}
    with pytest.raises(ductor.DuctorError, match=r"told_apart.<locals>.work and .*told_apart.<locals>.other"):
        Engine(tasks=[work, ductor.task("work")(other)])


def test_noting_a_call_costs_the_same_however_many_there_were():
    class Name(str):
        """Counts how often it is looked up."""

        __slots__ = ()
        looked_up = 0

        def __hash__(self) -> int:
            Name.looked_up += 1
            return super().__hash__()

    log, name, costs = CallLog(VirtualClock()), Name("work"), set()
    for number in range(100):
        Name.looked_up = 0
        attempt = SimpleNamespace(idempotency_key=f"t-{number}", step="a", attempt=1, run_id="r")
        call = log.record(name, None, cast("ductor.TaskContext", attempt))
        costs.add(Name.looked_up)
        assert call.number == number + 1
    assert len(costs) == 1
    assert (log.counts(), len(log.of("work"))) == ({"work": 100}, 100)


@virtual_time
async def test_its_host_lives_however_long_a_test_takes():
    waiting = {"name": "w", "steps": [{"ref": "a", "type": "wait", "signal": "go"}]}
    async with Engine(definitions=[waiting]) as engine:
        run = await engine.start("w")
        await asyncio.sleep(86_400)
        assert (await run.explain()).run == ()
        assert len(await engine.hosts()) == 1


@virtual_time
async def test_a_run_is_the_same_every_time():
    async def once() -> tuple[str, list[str]]:
        async with Engine(definitions=ORDER, mocks={"inventory.reserve": [1], "payments.charge": [2]}) as engine:
            run = await engine.start("order", {"sku": "A1"})
            await run.result()
            return run.run_id, [row.hash for row in await run.history()]

    first = await once()
    assert len(first[1]) >= 3
    assert (await once())[0] == first[0]


async def test_an_engine_on_an_ordinary_loop_says_what_is_missing():
    with pytest.raises(NotInVirtualTimeError, match="virtual_time"):
        Engine()


def test_a_mock_needs_an_answer():
    with pytest.raises(ValueError, match=r"payments\.charge"):
        Mock("payments.charge", [])
