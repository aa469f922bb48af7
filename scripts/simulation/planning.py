"""Plans from seeds."""

from typing import Final

from ductor.definitions.values import JsonObject
from scripts.simulation.chance import Chance
from scripts.simulation.child_runs import runs_of
from scripts.simulation.definitions import random_definition
from scripts.simulation.plan import (
    ACTION_KINDS,
    EVENTS,
    FAULT_KINDS,
    HANDLER_FAULTS,
    PEOPLE,
    SIGNALS,
    TENANTS,
    Action,
    ActionKind,
    Fault,
    FaultKind,
    HostLimits,
    Plan,
    Start,
)
from scripts.simulation.restarts import with_restarts
from scripts.simulation.seams import with_seams

MAX_DEFINITIONS: Final = 3
MAX_STARTS: Final = 24
MAX_ACTIONS: Final = 150
MAX_FAULTS: Final = 20

SEAMS_SHARE: Final = 0.15
"""So many campaigns have runs that are continued several times a second."""

LIKELY_ACTIONS: Final[tuple[ActionKind, ...]] = (
    *("signal", "event", "event", "vote") * 6,
    *("case", "reply", "pause", "resume", "compact") * 3,
)
"""Beside one of each kind: how much more often these are sent."""

WINDOWS: Final = frozenset({
    "slow_commits", "slow_calls", "lost_commits", "lost_answers", "cut_calls", "late_rows",
    "lost_wakeups", "doubled_wakeups", "delayed_wakeups",
})  # fmt: skip
"""Faults that last, and strike now and then while they do."""


def plan_of(seed: int, *, restarts: bool = False) -> Plan:
    """The plan of a seed; with `restarts` that of a campaign in which hosts are restarted in order, and no worse."""
    chance = Chance(seed, "plan")
    hosts = HostLimits(
        count=chance.one_of((1, 2, 2, 3)),
        concurrency=chance.one_of((1, 3, 8, 50)),
        max_hot_runs=chance.one_of((1, 4, 100)),
        idle_ms=chance.one_of((500, 5_000, 30_000)),
        sweep_ms=chance.one_of((500, 1_000, 2_000)),
        compact_every_rows=Chance(seed, "compaction").one_of((0, 0, 3, 8)),
    )
    faulty_ms = chance.one_of((4_000, 12_000, 45_000))
    definitions = _definitions(seed, chance.whole(1, MAX_DEFINITIONS))
    starts = tuple(
        _start(Chance(seed, "start", number), number, len(definitions), hosts.count, faulty_ms)
        for number in range(chance.whole(1, MAX_STARTS))
    )
    actions = tuple(
        _action(Chance(seed, "action", number), number, len(starts), hosts.count, faulty_ms)
        for number in range(chance.whole(0, MAX_ACTIONS))
    )
    faults = tuple(
        _fault(Chance(seed, "fault", number), hosts.count, faulty_ms) for number in range(chance.whole(1, MAX_FAULTS))
    )
    is_calm = chance.happens(0.1)
    count = 0 if is_calm else chance.whole(2, len(HANDLER_FAULTS))
    plan = Plan(
        seed=seed,
        hosts=hosts,
        quiet_at_ms=faulty_ms + 1_000,
        definitions=definitions,
        starts=starts,
        actions=actions,
        faults=() if is_calm else tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        handler_faults=tuple(sorted(chance.some_of(HANDLER_FAULTS, count))),
    )
    plan = with_seams(plan) if Chance(seed, "has seams").happens(SEAMS_SHARE) else plan
    return with_restarts(plan) if restarts else plan


def _definitions(seed: int, count: int) -> tuple[JsonObject, ...]:
    """Definitions, each of which may start runs of those before it."""
    known: dict[str, int] = {}
    definitions: list[JsonObject] = []
    for number in range(count):
        name = f"flow-{number}"
        definitions.append(random_definition(Chance(seed, "definition", number), name, known))
        known[name] = runs_of(definitions[-1], known)
    return tuple(definitions)


def _start(chance: Chance, number: int, definitions: int, hosts: int, faulty_ms: int) -> Start:
    return Start(
        at_ms=chance.whole(0, faulty_ms * 2 // 3),
        definition=chance.whole(0, definitions - 1),
        tenant=chance.one_of(TENANTS),
        trigger={"id": number % 2},
        key=f"key-{number}" if chance.happens(0.8) else None,
        via=chance.whole(0, hosts),
        times=chance.one_of((1, 1, 2)),
        awaited_via=chance.one_of((0, 0, chance.whole(1, hosts))),
    )


def _action(chance: Chance, number: int, starts: int, hosts: int, faulty_ms: int) -> Action:
    kind = chance.one_of((*ACTION_KINDS, *LIKELY_ACTIONS))
    names = {"signal": SIGNALS, "event": EVENTS, "vote": ("approved", "approved", "rejected")}
    run = chance.whole(0, starts - 1)
    return Action(
        kind=kind,
        at_ms=chance.whole(0, faulty_ms),
        run=run,
        request_id=f"request-{number}",
        via=chance.whole(0, hosts),
        times=chance.one_of((1, 1, 2, 3)),
        name=chance.one_of(names[kind]) if kind in names else "go",
        by=chance.one_of(PEOPLE),
        member=chance.one_of((0, 0, 0, 1, 2, chance.whole(0, 20))),
        payload={"id": run % 2, "n": chance.whole(0, 2), "text": "x" * chance.one_of((0, 0, 0, 40_000))},
    )


def _fault(chance: Chance, hosts: int, faulty_ms: int) -> Fault:
    kind: FaultKind = chance.one_of(FAULT_KINDS)
    at_ms = chance.whole(0, faulty_ms - 1)
    left_ms = faulty_ms - at_ms
    host = chance.whole(1, hosts)
    if kind in WINDOWS:
        for_ms = min(left_ms, chance.one_of((1_000, 5_000, 30_000)))
        return Fault(kind=kind, at_ms=at_ms, for_ms=for_ms, host=chance.one_of((0, host)), rate=chance.real(0.05, 0.6))
    if kind == "database_away":
        return Fault(kind=kind, at_ms=at_ms, for_ms=min(left_ms, chance.one_of((300, 2_000, 8_000))))
    if kind == "freeze":
        return Fault(kind=kind, at_ms=at_ms, for_ms=min(left_ms, chance.one_of((50, 1_500, 8_000, 30_000))), host=host)
    if kind == "wall_clock_jump":
        amount = chance.one_of((-3_600_000, -7_000, -900, 700, 5_000, 3_600_000))
        return Fault(kind=kind, at_ms=at_ms, host=host, amount=amount)
    if kind == "clock_standstill":
        return Fault(kind=kind, at_ms=at_ms, host=host, amount=chance.one_of((300, 4_000)))
    down_ms = min(left_ms, chance.one_of((0, 400, 3_000, 30_000)))
    return Fault(kind=kind, at_ms=at_ms, for_ms=down_ms, host=host, amount=chance.whole(0, 400))
