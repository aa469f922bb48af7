# ruff: noqa: SLF001 - a planted bug reaches inside
"""Bugs planted into what hosts do when others come and go in order: each has attempts carried out twice."""

from collections.abc import Coroutine, Iterator, Sequence

from ductor.actors.coordinator import Coordinator
from ductor.actors.membership import ANY_TIME_US, Membership
from ductor.actors.messages import AttemptResult
from ductor.actors.side_writes import SideWrites
from ductor.journal.records import HostRecord
from scripts.simulation.planted.planting import planted, replaced


@planted("attempts are issued again before their former owners have told what they hold", restarts=True)
def _untold_issued_again() -> Iterator[None]:
    def hasty(_self: Membership, *_others: object) -> frozenset[int]:
        return frozenset()

    with replaced(Membership, "_unsettled", hasty):
        yield


@planted("attempts are issued again that are younger than what all hosts have told of", restarts=True)
def _younger_issued_again() -> Iterator[None]:
    def careless(_self: Membership, _alive: Sequence[HostRecord]) -> int:
        return ANY_TIME_US

    with replaced(Membership, "_all_told_until_us", careless):
        yield


@planted("whatever a coordinator hears makes it issue again what another host may hold", restarts=True)
def _issued_again_by_anything() -> Iterator[None]:
    on_receive = Coordinator.on_receive

    def anxious(self: Coordinator, message: object) -> Coroutine[None, None, None] | None:
        self._reissues = True
        return on_receive(self, message)

    with replaced(Coordinator, "on_receive", anxious):
        yield


@planted("a host that stops drops the results that its coordinators have in hand", restarts=True)
def _results_left_behind() -> Iterator[None]:
    store_result = SideWrites._store_result

    async def careless(self: SideWrites, result: AttemptResult) -> None:
        if self._engine._is_closing:
            self._engine.confirm(result)
        else:
            await store_result(self, result)

    with replaced(SideWrites, "_store_result", careless):
        yield
