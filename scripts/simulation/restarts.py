"""Plans about hosts that are restarted in order under load, one after another, and nothing worse.

Nobody dies and nothing is cut, so that each handler has to be called just once: see `repetitions`. What makes it hard
is that all is slow: hosts stand still for moments, commits, calls and heartbeats take long, handlers are at work while
their runs change owners, and hosts see others come and go at different times.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from scripts.simulation.chance import Chance
from scripts.simulation.plan import TENANTS, Fault, FaultKind, HandlerFault, HostLimits, Plan, Start

HARMLESS: Final[frozenset[FaultKind]] = frozenset({
    "wall_clock_jump", "slow_commits", "slow_calls", "lost_commits", "lost_answers", "late_rows",
    "lost_wakeups", "doubled_wakeups", "delayed_wakeups",
})  # fmt: skip
"""Faults that are no reason to carry anything out twice."""

HANDLER_FAULTS: Final[tuple[HandlerFault, ...]] = ("slow", "failing", "asking_to_wait", "bulky", "deaf")

MAX_STARTS: Final = 24
MAX_PAUSES: Final = 20
MAX_SLOW: Final = 4
GAPS_MS: Final = (100, 500, 1_500, 4_000)
"""Between the restarts of two hosts, at most."""


def with_restarts(plan: Plan) -> Plan:
    """The plan with its hosts restarted one after another, several times, and with none of its graver faults."""
    chance = Chance(plan.seed, "restarts")
    hosts = HostLimits(
        count=chance.one_of((2, 3, 3)),
        concurrency=chance.one_of((8, 50)),
        max_hot_runs=plan.hosts.max_hot_runs,
        idle_ms=plan.hosts.idle_ms,
        sweep_ms=500,
        compact_every_rows=plan.hosts.compact_every_rows,
        heartbeat_ms=1_000,
        drain_ms=15_000,
        linger_ms=chance.one_of((0, 0, 300)),
    )
    until_ms = plan.quiet_at_ms - 1_000
    faults = [_of_one_of(hosts, fault) for fault in plan.faults if fault.kind in HARMLESS]
    faults += [*_restarts(chance, hosts, until_ms), *_pauses(chance, hosts, until_ms), *_slow(chance, hosts, until_ms)]
    return msgspec.structs.replace(
        plan,
        hosts=hosts,
        starts=(*plan.starts, *_starts(chance, plan, hosts, until_ms)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        handler_faults=tuple(sorted(chance.some_of(HANDLER_FAULTS, chance.whole(0, 2)))),
    )


def _of_one_of(hosts: HostLimits, fault: Fault) -> Fault:
    """The fault, of a host that there is."""
    return msgspec.structs.replace(fault, host=(fault.host - 1) % hosts.count + 1) if fault.host else fault


def _starts(chance: Chance, plan: Plan, hosts: HostLimits, until_ms: int) -> list[Start]:
    """Runs that begin all the while, through every host."""
    return [
        Start(
            at_ms=chance.whole(0, until_ms),
            definition=chance.whole(0, len(plan.definitions) - 1),
            tenant=chance.one_of(TENANTS),
            trigger={"id": number % 2},
            key=f"restarts-{number}",
            via=chance.whole(0, hosts.count),
        )
        for number in range(chance.whole(0, max(0, MAX_STARTS - len(plan.starts))))
    ]


def _restarts(chance: Chance, hosts: HostLimits, until_ms: int) -> Iterator[Fault]:
    gap_ms, at_ms, number = chance.one_of(GAPS_MS), chance.whole(0, 1_500), 0
    while at_ms < until_ms or number < hosts.count:
        yield Fault(
            kind="restart",
            at_ms=min(at_ms, until_ms),
            for_ms=chance.one_of((0, 0, 200, 2_000)),
            host=number % hosts.count + 1,
        )
        number += 1
        at_ms += chance.whole(100, 100 + gap_ms) + (chance.whole(500, 5_000) if number % hosts.count == 0 else 0)


def _pauses(chance: Chance, hosts: HostLimits, until_ms: int) -> Iterator[Fault]:
    """Moments in which a host gets no processor."""
    for _ in range(chance.whole(0, MAX_PAUSES)):
        for_ms = chance.one_of((20, 100, 400, 900))
        yield Fault(kind="freeze", at_ms=chance.whole(0, until_ms), for_ms=for_ms, host=chance.whole(1, hosts.count))


def _slow(chance: Chance, hosts: HostLimits, until_ms: int) -> Iterator[Fault]:
    for _ in range(chance.whole(0, MAX_SLOW)):
        yield Fault(
            kind=chance.one_of(("slow_commits", "slow_calls")),
            at_ms=chance.whole(0, until_ms),
            for_ms=chance.one_of((1_000, 3_000, 10_000)),
            host=chance.one_of((0, chance.whole(1, hosts.count))),
            rate=chance.real(0.05, 0.6),
        )
