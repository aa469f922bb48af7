"""Plans about seams: runs that are continued again and again, while many send to them, each thing more than once.

What is decided on before a run is continued, and seen afterwards, has to find its way to the run that goes on.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from ductor.definitions.values import JsonObject
from scripts.simulation.chance import Chance
from scripts.simulation.plan import SIGNALS, TENANTS, Action, ActionKind, Fault, Plan, Start

NAME: Final = "seams"
MAX_ROUNDS: Final = 20
MAX_RUNS: Final = 2
MAX_SENT: Final = 40
FIRST_MS: Final = 300
SPREAD_MS: Final = 6_000
AGAIN_MS: Final = 400
KINDS: Final[tuple[ActionKind, ...]] = (*("signal",) * 8, "continue_as_new", "pause", "resume", "compact")


def with_seams(plan: Plan) -> Plan:
    """The plan, with runs that are continued several times a second, and with rows that are seen late."""
    chance = Chance(plan.seed, NAME)
    number, first_start = len(plan.definitions), len(plan.starts)
    count = chance.whole(1, MAX_RUNS)
    starts = [
        Start(
            at_ms=chance.whole(0, FIRST_MS),
            definition=number,
            tenant=chance.one_of(TENANTS),
            trigger={"id": index},
            key=f"{NAME}-{index}",
            via=chance.whole(0, plan.hosts.count),
            awaited_via=chance.whole(0, plan.hosts.count),
        )
        for index in range(count)
    ]
    actions = [
        action
        for index in range(chance.whole(MAX_SENT // 2, MAX_SENT))
        for action in _sent(chance, index, first_start + chance.whole(0, count - 1), plan.hosts.count)
    ]
    late = Fault(kind="late_rows", at_ms=0, for_ms=plan.quiet_at_ms - 1_000, rate=chance.real(0.2, 0.8))
    return msgspec.structs.replace(
        plan,
        definitions=(*plan.definitions, _definition(chance)),
        starts=(*plan.starts, *starts),
        actions=(*plan.actions, *actions),
        faults=tuple(sorted((*plan.faults, late), key=lambda fault: fault.at_ms)),
    )


def _sent(chance: Chance, index: int, run: int, hosts: int) -> Iterator[Action]:
    """One thing that is sent, at once and again a moment later: its run may have been continued by then."""
    kind, at_ms = chance.one_of(KINDS), chance.whole(FIRST_MS, SPREAD_MS)
    for _ in range(chance.whole(1, 3)):
        yield Action(
            kind=kind,
            at_ms=at_ms,
            run=run,
            request_id=f"{NAME}-{index}",
            via=chance.whole(0, hosts),
            times=chance.one_of((1, 1, 2)),
            name=SIGNALS[index % 2],
            member=chance.one_of((0, 0, chance.whole(1, MAX_ROUNDS))),
        )
        at_ms += chance.whole(0, AGAIN_MS)


def _definition(chance: Chance) -> JsonObject:
    """Its runs hear signals all the time, and one that waits for a signal goes on at once."""
    listens: JsonObject = {"ref": "listens", "type": "wait", "signal": SIGNALS[0]}
    listens |= {"timeout": "1s", "on_timeout": "skip"}
    pauses: JsonObject = {"ref": "pauses", "type": "wait", "duration": chance.one_of(("0s", "100ms", "500ms"))}
    steps = chance.one_of(([pauses], [listens], [pauses, listens]))
    document: JsonObject = {"ductor": 1, "name": NAME, "context": {"n": 0}, "steps": list(steps)}
    if chance.happens(0.7):
        document["on"] = [{"signal": SIGNALS[1], "effects": {"n": "${context.n + 1}"}}]
    rounds: JsonObject = {"until": "false", "max": chance.whole(4, MAX_ROUNDS), "on_max": "continue"}
    if chance.happens(0.5):
        rounds["every"] = chance.one_of(("50ms", "200ms"))
    return document | {"repeat": rounds}
