"""A second opinion on leases, over all runs together: who holds a key, told by their journals in the order of commits.

Rule *leases*: a node is granted what it has asked for, once; never more hold a key than the one that is granted allows;
where one may hold it, fences grow; what has settled, and a run that has ended, holds nothing. At rest the store's rows
are those of the open nodes, nobody waits for a place that is free, and no key is left to be looked at.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import msgspec

from ductor.journal.events import (
    RUN_LEASE,
    AnyEvent,
    LeaseGranted,
    NodeParked,
    NodeSettled,
    RunContinued,
    RunEnded,
    RunStarted,
)
from ductor.journal.lease_store import LeaseEntry, LeaseKey
from ductor.journal.state import RunState
from scripts.simulation.machines import World

Report = Callable[[str, str], None]
Place = tuple[str, str]
"""Run and node."""

MAX_ENTRIES = 10_000


class Asked(msgspec.Struct, frozen=True):
    """What a node waits for or holds."""

    key: LeaseKey
    limit: int


class LeaseModel:
    """The leases of all runs. `report` takes the run and what is wrong."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._tenants: dict[str, str] = {}
        self._asked: dict[Place, Asked] = {}
        self._holders: dict[LeaseKey, dict[Place, int]] = {}
        self._fences: dict[LeaseKey, int] = {}

    def row(self, run_id: str, events: Sequence[AnyEvent]) -> None:
        """A row has become durable."""
        for event in events:
            if isinstance(event, RunStarted):
                self._tenants[run_id] = event.tenant
            elif isinstance(event, NodeParked) and event.waiting == "lease":
                assert isinstance(event.data, dict)
                key = LeaseKey(self._tenants[run_id], str(event.data["key"]))
                self._asked[run_id, event.node] = Asked(key, int(str(event.data["limit"])))
            elif isinstance(event, LeaseGranted):
                self._grant(run_id, event)
            elif isinstance(event, NodeSettled):
                self._leave((run_id, event.node))
            elif isinstance(event, RunEnded):
                self._leave((run_id, RUN_LEASE))
            elif isinstance(event, RunContinued):
                self._hand_on((run_id, RUN_LEASE), (event.successor_run_id, RUN_LEASE))

    def _grant(self, run_id: str, event: LeaseGranted) -> None:
        place = (run_id, event.node)
        asked = self._asked.get(place)
        if asked is None:
            self._report(run_id, f"{event.node} is granted a lease that it has not asked for")
            return
        holders = self._holders.setdefault(asked.key, {})
        if place in holders:
            self._report(run_id, f"{event.node} is granted its lease twice")
        earlier = [holder for holder, fence in holders.items() if fence < event.fence]  # grants may be told later
        if len(earlier) >= asked.limit:
            self._report(run_id, f"{event.node} is granted {asked.key}; {sorted(earlier)} hold it, {asked.limit} may")
        if asked.limit == 1:  # others may hold it beside one that is told so first
            if event.fence <= self._fences.get(asked.key, 0):
                self._report(run_id, f"fence {event.fence} of {asked.key} does not grow")
            self._fences[asked.key] = event.fence
        holders[place] = event.fence

    def _leave(self, place: Place) -> None:
        asked = self._asked.pop(place, None)
        if asked is not None:
            self._holders.get(asked.key, {}).pop(place, None)

    def _hand_on(self, place: Place, successor: Place) -> None:
        asked = self._asked.pop(place, None)
        if asked is not None and place in self._holders.get(asked.key, {}):
            self._holders[asked.key][successor] = self._holders[asked.key].pop(place)
            self._asked[successor] = asked


def check_leases(world: World, open_states: Iterable[RunState], report: Report) -> None:
    """At rest the store's rows are those of the open nodes, and nobody waits for a place that is free."""
    entries = world.database.call("leases", (), {"limit": MAX_ENTRIES})
    assert isinstance(entries, list)
    stored = {(entry.run_id, entry.node): entry for entry in entries}
    expected = {place for state in open_states for place in _places(state)}
    for place in sorted(stored.keys() - expected):
        report(place[0], f"{place[1]} has left and {'holds' if stored[place].fence else 'waits for'} a lease")
    for place in sorted(expected - stored.keys()):
        report(place[0], f"the lease of {place[1]} is lost")
    for key, line in groupby(entries, key=lambda entry: (entry.tenant, entry.key)):
        _check_line(key, list(line), report)
    left = world.database.call("lease_work", (None, MAX_ENTRIES), {})
    if left:
        report("", f"nobody has looked at {left}")


def _places(state: RunState) -> Iterable[Place]:
    """What has a place, or waits for one."""
    if state.lease_key:
        yield state.run_id, RUN_LEASE
    for ref in state.open_nodes:
        if state.nodes[ref].lease_key:
            yield state.run_id, ref


def _check_line(key: tuple[str, str], line: list[LeaseEntry], report: Report) -> None:
    held = sum(entry.fence > 0 for entry in line)
    first = next((entry for entry in line if not entry.fence), None)
    if first is not None and held < first.limit:
        report(first.run_id, f"{first.node} waits for {key}, of which a place is free")
