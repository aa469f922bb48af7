# ruff: noqa: SLF001 - a planted bug reaches inside
"""Bugs planted into ticks."""

from collections.abc import Iterator
from typing import Any, Final

from ductor.actors import coordinator as coordinators
from ductor.actors.steps import BEHAVIOURS
from ductor.actors.tick import compute as ticks
from ductor.actors.tick import schedule as schedules
from ductor.actors.tick.outbox import Outbox
from ductor.journal.commit import MessageDisposition
from ductor.journal.events import AttemptFinished, Message
from scripts.simulation.planted.planting import planted, replaced

EARLY_US: Final = 1_500_000


@planted("results of older attempts are applied")
def _generation_unchecked() -> Iterator[None]:
    def credulous(tick: Any, results: list[AttemptFinished]) -> list[AttemptFinished]:
        for result in results:
            node = tick.state.nodes.get(result.node)
            if node is None or node.status != "running":
                return [result]
            tick.emit(result)
            program_node = tick.program.node(result.node)
            BEHAVIOURS[program_node.step.type_name].on_result(tick, program_node, result)
        return []

    with replaced(ticks, "advance", credulous):
        yield


@planted("results are applied to runs that have ended")
def _end_unchecked() -> Iterator[None]:
    advance = ticks.__dict__["advance"]

    def credulous(tick: Any, results: list[AttemptFinished]) -> list[AttemptFinished]:
        superseded: list[AttemptFinished] = advance(tick, results)
        for result in superseded:
            tick.emit(result)
        return superseded

    with replaced(ticks, "advance", credulous):
        yield


@planted("timers fire a moment early")
def _timer_early() -> Iterator[None]:
    fire_due_timers = ticks.__dict__["fire_due_timers"]

    def impatient(tick: Any, limit: int, before_us: int | None = None) -> int:
        tick.now_us += EARLY_US
        try:
            return int(fire_due_timers(tick, limit, before_us))
        finally:
            tick.now_us -= EARLY_US

    with replaced(ticks, "fire_due_timers", impatient):
        yield


@planted("a join that has fired fires again when a further branch arrives")
def _join_fires_twice() -> Iterator[None]:
    answer = schedules._answer

    def eager(run: Any, node: Any) -> bool | None:
        state = run.node(node.ref)
        if state.status == "succeeded" and node.step.join != "all" and state.sources_taken > 1:
            state.status = "pending"
        return answer(run, node)

    with replaced(schedules, "_answer", eager):
        yield


@planted("a join of every branch does not wait for the last one")
def _join_too_soon() -> Iterator[None]:
    join_answer = schedules.join_answer

    def hasty(join: str | int, sources: int, settled: int, taken: int) -> bool | None:
        return join_answer("any" if join == "every" else join, sources, settled, taken)

    with replaced(schedules, "join_answer", hasty):
        yield


@planted("messages that wait while the run is paused are lost")
def _message_lost_on_pause() -> Iterator[None]:
    compute = ticks.compute

    def lossy(program: Any, state: Any, inputs: Any, now_us: int, library: Any) -> Any:
        messages = inputs.messages
        payload = compute(program, state, inputs, now_us, library)
        if state.paused_at_us is not None and messages:
            payload.outbox = payload.outbox or Outbox()
            for message in messages:
                payload.outbox.messages[message.id] = MessageDisposition(message.id, "consumed")
        return payload

    with replaced(coordinators, "compute", lossy):
        yield


@planted("a signal that nobody waits for is taken for consumed")
def _signal_not_buffered() -> Iterator[None]:
    absorb = ticks.__dict__["absorb"]

    def lossy(tick: Any, message: Message) -> None:
        if message.kind == "signal" and f"signal:{message.name}" not in tick.state.listeners:
            tick.outbox.messages[message.id] = MessageDisposition(message.id, "consumed")
        else:
            absorb(tick, message)

    with replaced(ticks, "absorb", lossy):
        yield


@planted("the inbox goes on listing what nobody waits for any more")
def _inbox_row_left() -> Iterator[None]:
    leave = Outbox.leave

    def careless(self: Outbox, ref: str, node: Any) -> None:
        leave(self, ref, node)
        self.inbox_gone.clear()

    with replaced(Outbox, "leave", careless):
        yield
