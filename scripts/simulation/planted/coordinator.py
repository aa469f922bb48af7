# ruff: noqa: SLF001 - a planted bug reaches inside
"""Bugs planted into coordinators and workers."""

from collections.abc import Iterator
from typing import Any

import msgspec

from ductor.actors import coordinator as coordinators
from ductor.actors.commits import assignment_of
from ductor.actors.coordinator import Coordinator
from ductor.actors.messages import Assignment
from ductor.actors.worker import WorkerPool
from ductor.definitions.steps import AnyStep
from ductor.journal.state import RunState
from scripts.simulation.planted.planting import planted, replaced


@planted("attempts go to workers before the commit that records them")
def _dispatch_before_commit() -> Iterator[None]:
    commit = Coordinator._commit

    def hasty(self: Coordinator, payload: Any, *others: Any) -> None:
        for ref in payload.dispatched:
            assert self.state is not None
            assert self.program is not None
            if self.state.nodes[ref].status == "running":
                step = self.program.node(ref).step
                self.engine.offer(assignment_of(self.state, step, ref, is_redelivery=False))
        commit(self, payload, *others)

    with replaced(Coordinator, "_commit", hasty):
        yield


@planted("a worker may forget its result before the commit that carries it")
def _confirm_before_commit() -> Iterator[None]:
    commit = Coordinator._commit

    def hasty(self: Coordinator, payload: Any, results: Any, *others: Any) -> None:
        for result in results:
            self.engine.confirm(result)
        commit(self, payload, [], *others)

    with replaced(Coordinator, "_commit", hasty):
        yield


@planted("a lost version check drops the results in hand")
def _inputs_dropped_on_conflict() -> Iterator[None]:
    after_conflict = Coordinator._after_conflict

    async def forgetful(self: Coordinator) -> None:
        for result in self._results:
            self.engine.confirm(result)
        self._results.clear()
        await after_conflict(self)

    with replaced(Coordinator, "_after_conflict", forgetful):
        yield


@planted("what became of a request is not written with the row")
def _control_not_disposed() -> Iterator[None]:
    commit = Coordinator._commit

    def careless(self: Coordinator, payload: Any, *others: Any) -> None:
        commit(self, msgspec.structs.replace(payload, control=None) if payload.events else payload, *others)

    with replaced(Coordinator, "_commit", careless):
        yield


@planted("an attempt that is delivered again has another idempotency key")
def _token_of_redelivery() -> Iterator[None]:

    def other(state: RunState, step: AnyStep, ref: str, *, is_redelivery: bool) -> Assignment:
        assignment: Assignment = assignment_of(state, step, ref, is_redelivery=is_redelivery)
        if is_redelivery:
            return msgspec.structs.replace(assignment, token=f"{assignment.token}/again")
        return assignment

    with replaced(coordinators, "assignment_of", other):
        yield


@planted("a worker takes an attempt that it holds already")
def _held_attempt_taken_again() -> Iterator[None]:
    offer = WorkerPool.offer

    def forgetful(self: WorkerPool, assignment: Assignment) -> bool:
        self._held.pop(assignment.token, None)
        return offer(self, assignment)

    with replaced(WorkerPool, "offer", forgetful):
        yield
