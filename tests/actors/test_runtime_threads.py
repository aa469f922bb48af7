"""Actors: replies, contexts, other threads and loops, and what ties them to Pykka."""

import asyncio
import contextvars
import inspect
import threading
from typing import Any

import pykka
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pykka._envelope import Envelope

from ductor.actors.runtime import MESSAGES_PER_LOOP_STEP, LoopActor
from ductor.actors.runtime_errors import ActorStoppedError, WouldBlockError, WrongThreadError
from ductor.testing.loop import run_in_virtual_time, virtual_time
from tests.actors.recording import Recorder, Witness, boom, settled, started


@virtual_time
async def test_a_reply_that_is_not_there_is_never_waited_for_by_blocking():
    _, ref = started()
    reply = ref.ask("x")
    with pytest.raises(WouldBlockError):
        reply.get()
    assert not reply.done()
    await settled()
    assert reply.get() == "x"


@virtual_time
async def test_an_asker_that_gave_up_harms_nobody():
    actor, ref = started()

    async def asker(message: object) -> None:
        await ref.ask(message)

    for message in ("x", boom):
        task = asyncio.get_running_loop().create_task(asker(message))
        await asyncio.sleep(0)
        task.cancel()
        await settled()
    assert ref.is_alive()
    assert actor.seen == ["x"]


@virtual_time
async def test_handlers_do_not_run_in_the_context_of_the_teller():
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")
    actor, ref = started()
    variable.set("teller's")
    ref.tell(lambda actor: actor.seen.append(variable.get()))

    async def later(actor: Recorder) -> None:
        actor.seen.append(variable.get())
        variable.set("actor's")

    ref.tell(later)
    ref.tell(lambda actor: actor.seen.append(variable.get()))
    await settled()
    await settled()
    assert actor.seen == ["clean", "clean", "actor's"]
    assert variable.get() == "teller's"


@virtual_time
async def test_the_actors_context_stays_its_own_over_many_loop_steps():
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")
    actor, ref = started()
    for number in range(MESSAGES_PER_LOOP_STEP):
        ref.tell(number)
    ref.tell(lambda actor: variable.set("set in the second step"))
    await settled()
    ref.tell(lambda actor: actor.seen.append(variable.get()))
    await settled()
    assert actor.seen[-1] == "set in the second step"


async def test_another_thread_may_tell_but_not_ask():
    actor, ref = started()
    done = asyncio.Event()
    errors: list[BaseException] = []

    def thread() -> None:
        for number in range(100):
            ref.tell(number)
        try:
            ref.ask("x")
        except WrongThreadError as error:
            errors.append(error)
        ref.tell(lambda actor: done.set())

    worker = threading.Thread(target=thread)
    worker.start()
    await asyncio.wait_for(done.wait(), 10)
    worker.join()
    assert actor.seen == list(range(100))
    assert len(errors) == 1


async def test_a_message_under_way_from_a_thread_to_an_actor_that_ends_goes_to_the_supervisor():
    witness = Witness()
    actor, ref = started(witness)
    await settled()

    def tell() -> None:
        ref.tell("under way")

    worker = threading.Thread(target=tell)
    worker.start()
    worker.join()  # the message is scheduled on the loop, which is busy here
    assert actor.stop_if_idle()
    await settled()
    assert witness.undelivered == ["under way"]


def test_telling_after_the_loop_has_closed_says_so():
    refs = []

    async def main() -> None:
        refs.append(started()[1])
        await settled()

    run_in_virtual_time(main())
    errors = []

    def tell() -> None:
        try:
            refs[0].tell("x")
        except ActorStoppedError as error:
            errors.append(error)

    thread = threading.Thread(target=tell)
    thread.start()
    thread.join()
    assert len(errors) == 1


def test_it_works_on_uvloop():
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        _actor, ref = started()

        async def slowly(actor: Recorder) -> str:
            await asyncio.sleep(0.001)
            return "late"

        assert await ref.ask(slowly) == "late"
        assert await ref.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@given(st.lists(st.sampled_from(["note", "async", "boom", "ask", "ask_boom", "stop", "step"]), max_size=40))
def test_every_message_is_handled_or_handed_over_exactly_once(script: list[str]):
    """Whatever is sent in whatever order: nothing told is lost or handled twice, and every question is answered."""

    async def main() -> None:
        witness = Witness()
        _actor, ref = started(witness)
        handled: list[int] = []
        told: list[int] = []
        asked = []

        class Numbered:
            def __init__(self, number: int, kind: str) -> None:
                self.number, self.kind = number, kind

            def __call__(self, actor: Recorder) -> Any:
                handled.append(self.number)
                if "boom" in self.kind:
                    raise ValueError
                return self.later() if self.kind == "async" else None

            async def later(self) -> None:
                await asyncio.sleep(0.5)

        for number, kind in enumerate(script):
            if kind == "step":
                await asyncio.sleep(0.3)
            elif kind == "stop":
                asked.append(ref.stop())
            elif kind.startswith("ask"):
                asked.append(ref.ask(Numbered(number, kind)))
            elif ref.is_alive():
                told.append(number)
                ref.tell(Numbered(number, kind))
        await asyncio.sleep(60)
        assert all(reply.done() for reply in asked)
        over = [message.number for left in witness.stopped for message in left if isinstance(message, Numbered)]
        over += [message.number for _, left in witness.failed for message in left if isinstance(message, Numbered)]
        told_and_handled = [number for number in handled if number in told]
        assert sorted(told_and_handled + over) == told
        assert len(witness.stopped) + len(witness.failed) == (0 if ref.is_alive() else 1)

    run_in_virtual_time(main())


def test_the_private_names_of_pykka_that_we_use_are_as_we_know_them():
    assert pykka.messages._ActorStop() == ()
    assert list(inspect.signature(Envelope).parameters) == ["message", "reply_to"]
    assert {"_create_actor_inbox", "_create_future", "_start_actor_loop"} <= pykka.Actor.__abstractmethods__
    assert list(inspect.signature(pykka.ActorRef).parameters) == ["actor"]
    set_by_pykka = set(inspect.getsource(pykka.Actor.__init__).split("self.")[1:])
    assert {name.split(" =")[0] for name in set_by_pykka if " =" in name} == {
        "actor_urn",
        "actor_inbox",
        "actor_stopped",
        "_actor_ref",
    }
    assert set(vars(LoopActor().actor_ref)) == {
        "_actor_weakref",
        "actor_class",
        "actor_urn",
        "actor_inbox",
        "actor_stopped",
    }


@virtual_time
async def test_pykkas_own_way_in_works_and_its_registry_stays_empty():
    ref = Recorder.start()
    reply = pykka.ActorRef.ask(ref, "hello", block=False)
    assert await reply == "hello"
    assert pykka.ActorRegistry.get_all() == []
    assert await pykka.ActorRef.ask(ref, pykka.messages._ActorStop(), block=False)
    assert not pykka.ActorRef.is_alive(ref)


@virtual_time
async def test_without_a_supervisor_the_log_tells_what_was_lost(caplog: pytest.LogCaptureFixture):
    (failing_actor, failing), (stopping_actor, stopping) = started(), started()
    failing_actor.supervisor = stopping_actor.supervisor = LoopActor.supervisor
    failing.tell(boom)
    failing.tell("left")
    stopping.stop()
    stopping.tell("left too")
    await settled()
    texts = [record.getMessage() for record in caplog.records]
    assert any("failed with 1 messages not handled" in text for text in texts)
    assert any("stopped with 1 messages not handled: ['left too']" in text for text in texts)
    LoopActor.supervisor.message_undelivered(Recorder(), "late")
    assert "did not handle 'late'" in caplog.text


@virtual_time
async def test_an_actor_that_stops_and_raises_is_reported_once(caplog: pytest.LogCaptureFixture):
    witness = Witness()
    _, ref = started(witness)

    def leave_and_raise(actor: Recorder) -> None:
        assert actor.stop_if_idle()
        raise ValueError

    ref.tell(leave_and_raise)
    await settled()
    assert (witness.stopped, witness.failed) == ([[]], [])
    assert "raised after it had stopped" in caplog.text
