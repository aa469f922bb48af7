"""An actor that records what it is told, and a supervisor that witnesses ends, for tests."""

import asyncio
import contextvars
from collections.abc import Sequence
from typing import Any

from ductor.actors.runtime import LoopActor, LoopActorRef


class Witness:
    """A supervisor that remembers."""

    def __init__(self) -> None:
        self.stopped: list[Sequence[object]] = []
        self.failed: list[tuple[BaseException, Sequence[object]]] = []
        self.undelivered: list[object] = []

    def actor_stopped(self, actor: LoopActor, undelivered: Sequence[object]) -> None:
        self.stopped.append(undelivered)

    def actor_failed(self, actor: LoopActor, error: BaseException, undelivered: Sequence[object]) -> None:
        self.failed.append((error, undelivered))

    def message_undelivered(self, actor: LoopActor, message: object) -> None:
        self.undelivered.append(message)


class Recorder(LoopActor):
    """Handles what it is told: calls a callable, awaits what `async` names, notes everything else."""

    def __init__(self, witness: Witness | None = None) -> None:
        super().__init__()
        self.supervisor = witness or Witness()
        self.seen: list[object] = []
        self.hooks: list[str] = []

    def on_start(self) -> None:
        self.hooks.append("start")

    def on_stop(self) -> None:
        self.hooks.append("stop")

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        self.hooks.append(f"failure {exception_type.__name__}")

    def on_drained(self) -> None:
        self.hooks.append("drained")

    def on_receive(self, message: Any) -> Any:
        if callable(message):
            return message(self)
        self.seen.append(message)
        return message


def started(witness: Witness | None = None) -> tuple[Recorder, LoopActorRef[Recorder]]:
    actor = Recorder(witness)
    actor.start_in(contextvars.copy_context())
    return actor, actor.actor_ref


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def boom(actor: Recorder) -> None:
    raise ValueError("boom")
