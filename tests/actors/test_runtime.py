"""Actors on the loop: order, bounds, crashes, threads; and the private names of Pykka that they stand on."""

import asyncio
import contextvars
import gc
import weakref
from typing import Any

import pykka
import pytest

from ductor.actors.runtime import MESSAGES_PER_LOOP_STEP
from ductor.actors.runtime_errors import ActorStoppedError
from ductor.testing.loop import run_in_virtual_time, virtual_time
from tests.actors.recording import Recorder, Witness, boom, settled, started


@virtual_time
async def test_told_messages_are_handled_in_order_after_the_teller_goes_on():
    actor, ref = started()
    for number in range(3):
        ref.tell(number)
    assert actor.seen == []
    await settled()
    assert actor.seen == [0, 1, 2]
    assert actor.hooks == ["start", "drained"]


@virtual_time
async def test_ask_gives_the_reply_of_an_ordinary_and_of_a_coroutine_handler():
    _, ref = started()

    async def slowly(actor: Recorder) -> str:
        await asyncio.sleep(1)
        return "late"

    assert await ref.ask("now") == "now"
    assert await ref.ask(slowly) == "late"


@virtual_time
async def test_the_inbox_waits_while_a_coroutine_handles_a_message():
    actor, ref = started()
    gate = asyncio.Event()

    async def wait(actor: Recorder) -> None:
        await gate.wait()
        actor.seen.append("waited")

    ref.tell(wait)
    ref.tell("behind")
    await settled()
    assert actor.seen == []
    gate.set()
    await settled()
    assert actor.seen == ["waited", "behind"]


@virtual_time
async def test_an_ordinary_handler_costs_no_task():
    _actor, ref = started()
    tasks = []
    ref.tell(lambda _: tasks.append(asyncio.all_tasks()))
    await settled()
    assert tasks == [{asyncio.current_task()}]


@virtual_time
async def test_a_full_inbox_does_not_starve_the_loop():
    actor, ref = started()
    for number in range(MESSAGES_PER_LOOP_STEP * 3):
        ref.tell(number)
    handled = []
    await asyncio.sleep(0)  # the actor begins
    for _ in range(3):
        handled.append(len(actor.seen))
        await asyncio.sleep(0)
    assert handled == [MESSAGES_PER_LOOP_STEP, MESSAGES_PER_LOOP_STEP * 2, MESSAGES_PER_LOOP_STEP * 3]
    assert actor.hooks.count("drained") == 3


@virtual_time
async def test_an_actor_that_tells_itself_for_ever_does_not_starve_the_loop():
    _actor, ref = started()

    def again(actor: Recorder) -> None:
        ref.tell(again)

    ref.tell(again)
    for _ in range(100):
        await asyncio.sleep(0)  # comes back only if the actor gives way
    assert ref.is_alive()


@virtual_time
async def test_an_error_goes_to_the_asker_and_the_actor_lives():
    witness = Witness()
    _actor, ref = started(witness)

    async def later(actor: Recorder) -> None:
        await asyncio.sleep(1)
        raise KeyError("later")

    with pytest.raises(ValueError, match="boom"):
        await ref.ask(boom)
    with pytest.raises(KeyError):
        await ref.ask(later)
    assert await ref.ask("alive") == "alive"
    assert witness.failed == []


@virtual_time
async def test_an_error_without_an_asker_kills_the_actor_and_hands_over_what_waits():
    witness = Witness()
    actor, ref = started(witness)
    ref.tell(boom)
    ref.tell("left")
    asked = ref.ask("asked")
    await settled()
    ((error, undelivered),) = witness.failed
    assert isinstance(error, ValueError)
    assert undelivered == ["left"]
    assert actor.seen == []
    assert actor.hooks == ["start", "failure ValueError"]
    assert not ref.is_alive()
    with pytest.raises(ActorStoppedError):
        await asked
    with pytest.raises(ActorStoppedError):
        ref.tell("late")
    with pytest.raises(pykka.ActorDeadError):
        await ref.ask("late")


@pytest.mark.parametrize("hook", ["on_start", "on_drained", "on_stop"])
def test_an_error_in_a_hook_kills_the_actor_and_is_reported(hook: str):
    class Broken(Recorder):
        pass

    setattr(Broken, hook, boom)
    witness = Witness()

    async def main() -> None:
        actor = Broken(witness)
        actor.start_in(contextvars.copy_context())
        actor.actor_ref.tell("one")
        await settled()
        if hook == "on_stop":
            assert await actor.actor_ref.stop()
        ((error, undelivered),) = witness.failed
        assert isinstance(error, ValueError)
        assert undelivered == (["one"] if hook == "on_start" else [])
        assert witness.stopped == []

    run_in_virtual_time(main())


@virtual_time
async def test_an_error_in_on_failure_does_not_hide_the_first():
    class Broken(Recorder):
        def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
            raise KeyError("second")

    witness = Witness()
    actor = Broken(witness)
    actor.start_in(contextvars.copy_context())
    actor.actor_ref.tell(boom)
    await settled()
    assert isinstance(witness.failed[0][0], ValueError)


@virtual_time
async def test_a_cancelled_handler_kills_the_actor():
    witness = Witness()
    actor, ref = started(witness)
    asked = ref.ask(lambda actor: asyncio.sleep(10))
    ref.tell("left")
    await settled()
    actor.actor_inbox.cancel()
    await settled()
    ((error, undelivered),) = witness.failed
    assert isinstance(error, asyncio.CancelledError)
    assert undelivered == ["left"]
    with pytest.raises(ActorStoppedError):
        await asked


@virtual_time
async def test_a_handler_that_is_cancelled_before_its_first_step_kills_the_actor_too():
    witness = Witness()
    actor, ref = started(witness)
    ref.tell(lambda actor: asyncio.sleep(10))
    ref.tell("left")
    await asyncio.sleep(0)
    actor.actor_inbox.cancel()
    await settled()
    ((error, undelivered),) = witness.failed
    assert isinstance(error, asyncio.CancelledError)
    assert undelivered == ["left"]


@pytest.mark.parametrize("fatal", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("is_async", [False, True])
def test_interrupts_end_the_actor_and_go_on_to_the_loop(fatal: type[BaseException], is_async: bool):
    witness = Witness()

    def die(actor: Recorder) -> None:
        raise fatal

    async def die_later(actor: Recorder) -> None:
        await asyncio.sleep(0)
        raise fatal

    async def main() -> None:
        _, ref = started(witness)
        ref.tell(die_later if is_async else die)
        await asyncio.sleep(1)

    with pytest.raises(fatal):
        run_in_virtual_time(main())
    assert [type(error) for error, _ in witness.failed] == [fatal]


@virtual_time
async def test_stop_comes_after_what_waits_and_hands_over_what_comes_later():
    witness = Witness()
    actor, ref = started(witness)
    ref.tell("before")
    stopped = ref.stop()
    ref.tell("after")
    asked, second = ref.ask("asked after"), ref.stop()
    assert await stopped is True
    assert await second is True
    assert actor.seen == ["before"]
    assert witness.stopped == [["after"]]
    assert actor.hooks == ["start", "stop"]
    with pytest.raises(ActorStoppedError):
        await asked
    assert await ref.stop() is False


@virtual_time
async def test_stop_if_idle_refuses_while_a_message_waits():
    witness = Witness()
    actor, ref = started(witness)
    answers = []
    ref.tell(lambda actor: answers.append(actor.stop_if_idle()))
    ref.tell("behind")
    await settled()
    assert (answers, actor.seen, ref.is_alive()) == ([False], ["behind"], True)
    ref.tell(lambda actor: answers.append(actor.stop_if_idle()))
    await settled()
    assert (answers, ref.is_alive(), witness.stopped) == ([False, True], False, [[]])
    assert actor.stop_if_idle() is False


@virtual_time
async def test_stop_if_idle_refuses_while_a_coroutine_runs():
    _actor, ref = started()

    async def leave(actor: Recorder) -> bool:
        return actor.stop_if_idle()

    assert await ref.ask(leave) is False
    assert ref.is_alive()


@virtual_time
async def test_who_stops_an_actor_between_the_end_of_a_coroutine_and_what_follows_it_has_stopped_it():
    """At any loop step: nothing of it is called any more."""
    for loop_steps in range(6):
        witness = Witness()
        actor, ref = started(witness)

        async def handle(actor: Recorder) -> None:
            await asyncio.sleep(0)

        await settled()
        ref.tell(handle)
        for _ in range(loop_steps):
            await asyncio.sleep(0)
        has_stopped, hooks = actor.stop_if_idle(), list(actor.hooks)
        await settled()
        assert ref.is_alive() is not has_stopped
        assert not has_stopped or actor.hooks in (hooks, [*hooks, "stop"])
        assert witness.failed == []


def test_an_actor_that_has_stopped_is_freed_without_the_collector_of_garbage():
    async def stop_one() -> weakref.ref[Recorder]:
        actor, ref = started()
        ref.tell("last")
        assert await ref.stop()
        with pytest.raises(ActorStoppedError, match="Recorder"):
            ref.tell("too late")
        return weakref.ref(actor)

    async def main() -> None:
        assert (await stop_one())() is None

    gc.collect()
    gc.disable()
    try:
        run_in_virtual_time(main())
    finally:
        gc.enable()
