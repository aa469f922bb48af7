"""Bugs planted into scatters, child runs and undos."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec

from ductor.actors.tick import (
    closing,
    compute,
    continuing,
    gathering,
    reports,
    schedule,
    settle,
)
from ductor.actors.tick.outbox import StartedRun
from ductor.journal.events import AttemptFinished, CheckpointReached
from ductor.journal.ids import derived_run_id
from ductor.journal.memory_children import MemoryChildren
from ductor.journal.state import child_place
from scripts.simulation.planted.planting import planted, replaced


@planted("a run that ends badly leaves its children running")
def _orphan_on_cancel() -> Iterator[None]:
    with replaced(closing, "stop_children", lambda _tick, _status: None):
        yield


@planted("the child run of a step that is withdrawn goes on")
def _withdrawn_child_goes_on() -> Iterator[None]:
    with replaced(settle, "cancel_child", lambda _tick, _node: None):
        yield


@planted("what a child tells is taken up twice")
def _child_told_twice() -> Iterator[None]:
    apply_report = reports.__dict__["apply_report"]

    def echoing(tick: Any, event: Any) -> None:
        apply_report(tick, event)
        apply_report(tick, event)

    with replaced(reports, "apply_report", echoing):
        yield


@planted("nobody is told of checkpoints")
def _checkpoint_not_told() -> Iterator[None]:
    tell_parent = compute.__dict__["tell_parent"]

    def taciturn(tick: Any) -> None:
        events = tick.events
        tick.events = [event for event in events if not isinstance(event, CheckpointReached)]
        tell_parent(tick)
        tick.events = events

    with replaced(compute, "tell_parent", taciturn):
        yield


@planted("a child whose key is taken is not started, and nobody says so")
def _refusal_not_told() -> Iterator[None]:
    with replaced(MemoryChildren, "_refuse_run", lambda *_: None):
        yield


@planted("a run that continues another one forgets the children that are under way")
def _chain_forgets_children() -> Iterator[None]:
    successor = continuing.__dict__["_successor"]

    def forgetful(tick: Any, request_id: str) -> StartedRun:
        run: StartedRun = successor(tick, request_id)
        return msgspec.structs.replace(run, started=msgspec.structs.replace(run.started, open_children=()))

    with replaced(continuing, "_successor", forgetful):
        yield


@planted("the id of the run that continues another one is not derived from what it is for alone")
def _successor_id_by_chance() -> Iterator[None]:
    numbers = count()

    def fickle(at_us: int, *parts: str) -> str:
        return derived_run_id(at_us, *parts, str(next(numbers)))

    with replaced(continuing, "derived_run_id", fickle):
        yield


@planted("results of children are gathered in another order than that of the items")
def _gather_out_of_order() -> Iterator[None]:
    shaped = gathering.__dict__["_shaped"]

    def reversing(fanout: Any, results: list[Any]) -> Any:
        return shaped(fanout, results[::-1])

    with replaced(gathering, "_shaped", reversing):
        yield


@planted("a scatter counts the result of a child again that is delivered a second time")
def _duplicate_counted() -> Iterator[None]:
    advance = compute.__dict__["advance"]

    def double(tick: Any, results: list[AttemptFinished]) -> list[AttemptFinished]:
        superseded: list[AttemptFinished] = advance(tick, results)
        for result in superseded:
            place = child_place(result.node)
            scatter = None if place is None else tick.state.nodes.get(place[0])
            if place is not None and scatter is not None and scatter.fanout is not None and scatter.waiting == "child":
                scatter.fanout.succeeded += 1
                tick.state.fanned[place[0]] = None
        return superseded

    with replaced(compute, "advance", double):
        yield


@planted("what was done first is undone first")
def _undo_order_forward() -> Iterator[None]:
    undo_next = schedule.__dict__["undo_next"]

    def forward(tick: Any) -> bool:
        if tick.state.closing is not None and not tick.state.closing.is_compensating:
            tick.state.undoable.reverse()
        return bool(undo_next(tick))

    with replaced(schedule, "undo_next", forward):
        yield
