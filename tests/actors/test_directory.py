"""The directory of actors: one per key, nothing lost to a stop, an orderly end."""

import asyncio
import contextvars
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from ductor.actors.directory import ActorDirectory
from ductor.actors.runtime import LoopActor
from ductor.actors.runtime_errors import DirectoryClosedError
from ductor.testing.loop import virtual_time


class Notes:
    """A supervisor, and the place where the actors of a test note what they handled."""

    def __init__(self) -> None:
        self.handled: list[tuple[object, object]] = []
        self.started: list[object] = []
        self.stopped: list[tuple[object, list[object]]] = []
        self.failed: list[tuple[object, str, list[object]]] = []
        self.undelivered: list[tuple[object, object]] = []

    def actor_stopped(self, actor: LoopActor, undelivered: Sequence[object]) -> None:
        self.stopped.append((actor.key, list(undelivered)))

    def actor_failed(self, actor: LoopActor, error: BaseException, undelivered: Sequence[object]) -> None:
        self.failed.append((actor.key, type(error).__name__, list(undelivered)))

    def message_undelivered(self, actor: LoopActor, message: object) -> None:
        self.undelivered.append((actor.key, message))


class Noting(LoopActor):
    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self.notes = notes

    def on_start(self) -> None:
        self.notes.started.append(self.key)

    def on_receive(self, message: Any) -> Any:
        if callable(message):
            return message(self)
        self.notes.handled.append((self.key, message))
        return None


def directory() -> tuple[ActorDirectory[str, Noting], Notes]:
    notes = Notes()
    return ActorDirectory(lambda key: Noting(notes), notes), notes


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@virtual_time
async def test_tell_starts_one_actor_per_key():
    actors, notes = directory()
    for key, message in [("a", 1), ("b", 2), ("a", 3)]:
        actors.tell(key, message)
    await settled()
    assert notes.started == ["a", "b"]
    assert notes.handled == [("a", 1), ("a", 3), ("b", 2)]
    assert len(actors) == 2
    assert "a" in actors
    assert actors.get("c") is None
    assert [str(actor) for actor in actors] == ["Noting a", "Noting b"]


@virtual_time
async def test_what_a_stop_leaves_over_goes_to_a_new_actor_in_order():
    actors, notes = directory()
    first = actors.get_or_start("a")
    first.actor_ref.stop()
    actors.tell("a", 1)
    actors.tell("a", 2)
    await settled()
    assert notes.handled == [("a", 1), ("a", 2)]
    assert notes.stopped == [("a", [])]
    assert actors.get("a") is not first


@virtual_time
async def test_an_idle_actor_leaves_at_once_and_the_next_message_starts_another():
    actors, notes = directory()
    actors.tell("a", lambda actor: actor.stop_if_idle())
    await settled()
    assert len(actors) == 0
    actors.tell("a", "again")
    await settled()
    assert notes.handled == [("a", "again")]
    assert notes.started == ["a", "a"]


@virtual_time
async def test_a_message_told_to_its_own_key_from_on_stop_is_not_lost():
    actors, notes = directory()

    class Wistful(Noting):
        def on_stop(self) -> None:
            if len(self.notes.started) == 1:
                actors.tell("a", "last words")

    actors._create = lambda key: Wistful(notes)
    actors.tell("a", lambda actor: actor.stop_if_idle())
    await settled()
    assert notes.handled == [("a", "last words")]
    assert len(actors) == 1


@virtual_time
async def test_a_failure_frees_the_key_and_goes_to_the_supervisor_with_what_waited():
    actors, notes = directory()

    def boom(actor: Noting) -> None:
        raise ValueError

    actors.tell("a", boom)
    actors.tell("a", "left")
    await settled()
    assert notes.failed == [("a", "ValueError", ["left"])]
    assert "a" not in actors
    actors.tell("a", "fresh")
    await settled()
    assert notes.handled == [("a", "fresh")]


async def test_telling_from_a_thread_starts_actors_too():
    actors, notes = directory()
    done = asyncio.Event()

    def thread() -> None:
        actors.tell("a", 1)
        actors.tell("a", lambda actor: done.set())

    worker = threading.Thread(target=thread)
    worker.start()
    await asyncio.wait_for(done.wait(), 10)
    worker.join()
    assert notes.handled == [("a", 1)]


async def test_a_message_under_way_from_a_thread_to_an_actor_that_leaves_goes_to_a_new_one():
    actors, notes = directory()
    actor = actors.get_or_start("a")
    await settled()
    worker = threading.Thread(target=actor.actor_ref.tell, args=("under way",))
    worker.start()
    worker.join()
    assert actor.stop_if_idle()
    await settled()
    assert notes.handled == [("a", "under way")]


@virtual_time
async def test_close_lets_everything_told_be_handled_and_starts_nothing_more():
    actors, notes = directory()

    async def slowly(actor: Noting) -> None:
        await asyncio.sleep(1)
        actor.notes.handled.append((actor.key, "slow"))

    actors.tell("a", slowly)
    actors.tell("b", "quick")
    closing = asyncio.get_running_loop().create_task(actors.close(5_000))
    await settled()
    actors.tell("a", "too late")
    with pytest.raises(DirectoryClosedError):
        actors.tell("c", "nobody")
    assert await closing == 0
    assert notes.handled == [("b", "quick"), ("a", "slow")]
    assert notes.stopped == [("b", []), ("a", ["too late"])]
    assert await actors.close(5_000) == 0


@virtual_time
async def test_close_cancels_handlers_that_take_too_long():
    actors, notes = directory()
    actors.tell("a", lambda actor: asyncio.sleep(3_600))
    loop = asyncio.get_running_loop()
    begun = loop.time()
    assert await actors.close(2_000) == 1
    assert loop.time() - begun == pytest.approx(2)
    assert notes.failed == [("a", "CancelledError", [])]


@virtual_time
async def test_close_gives_up_on_a_handler_that_ignores_cancellation():
    actors, _notes = directory()

    async def stubborn(actor: Noting) -> None:
        for _ in range(3):
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                continue

    actors.tell("a", stubborn)
    await settled()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    assert await actors.close(2_000) == 1
    assert loop.time() - begun == pytest.approx(4)
    assert len(actors) == 1


@virtual_time
async def test_actors_do_not_share_a_context():
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")
    actors, _notes = directory()
    seen = []

    def change(actor: Noting) -> None:
        seen.append(variable.get())
        variable.set("changed")

    for key in ("a", "b", "a"):
        actors.tell(key, change)
    await settled()
    assert seen == ["clean", "changed", "clean"]
