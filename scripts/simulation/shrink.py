"""Makes a failing plan smaller for as long as it still breaks the same rule.

Parts are left out, large ones first: starts, what is sent, faults, hosts, definitions, steps and what steps say. A
smaller plan takes other turns than the whole one, so not every smaller plan that could fail does; what comes out is
short, not the shortest there is.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from ductor.definitions.values import JsonObject, JsonValue
from scripts.simulation.campaign import Outcome, run_campaign
from scripts.simulation.child_runs import named_definitions
from scripts.simulation.definitions import compiled_or_none
from scripts.simulation.plan import Plan

MAX_CAMPAIGNS: Final = 400
MAX_SECONDS: Final = 60.0

NEEDED_KEYS: Final = frozenset({"ref", "type", "task", "value", "when", "rules", "approvers", "title", "ask", "events"})

T = TypeVar("T")
Campaign = Callable[[Plan], Outcome]


def shrunk(
    failing: Outcome,
    run: Campaign = run_campaign,
    *,
    seconds: float = MAX_SECONDS,
    max_campaigns: int = MAX_CAMPAIGNS,
) -> Outcome:
    """A smaller campaign that breaks the same rule, or the one given.

    Args:
        failing: has violations; the first one's rule is kept.
        run: carries out a plan.
        seconds: real time at most.
        max_campaigns: plans that are tried at most.
    """
    rule, best = failing.violations[0].rule, failing
    until, campaigns = time.monotonic() + seconds, 0
    progress = True
    while progress:
        progress = False
        for candidate in _smaller(best.plan):
            if campaigns >= max_campaigns or time.monotonic() > until:
                return best
            campaigns += 1
            outcome = run(candidate)
            if any(violation.rule == rule for violation in outcome.violations):
                best, progress = outcome, True
                break
    return best


def plan_size(plan: Plan) -> int:
    """How many parts a plan has."""
    steps = sum(len(_steps(definition)) for definition in plan.definitions)
    return len(plan.starts) + len(plan.actions) + len(plan.faults) + len(plan.handler_faults) + steps


def _smaller(plan: Plan) -> Iterator[Plan]:
    for actions in _parts(plan.actions):
        yield msgspec.structs.replace(plan, actions=actions)
    for faults in _parts(plan.faults):
        yield msgspec.structs.replace(plan, faults=faults)
    for number in range(len(plan.starts) if len(plan.starts) > 1 else 0):
        yield _without_start(plan, number)
    for handler_faults in _parts(plan.handler_faults):
        yield msgspec.structs.replace(plan, handler_faults=handler_faults)
    if plan.hosts.count > 1:
        yield _with_fewer_hosts(plan)
    yield from _with_less_defined(plan)
    for number, start in enumerate(plan.starts):
        if start.times > 1:
            once = msgspec.structs.replace(start, times=1)
            yield msgspec.structs.replace(plan, starts=_replaced(plan.starts, number, once))


def _with_less_defined(plan: Plan) -> Iterator[Plan]:
    started = [plan.definitions[start.definition] for start in plan.starts]
    used = {number for number, one in enumerate(plan.definitions) if one in started or one["name"] in _named(plan)}
    for number in range(len(plan.definitions)):
        if number not in used:
            yield _without_definition(plan, number)
    for number, definition in enumerate(plan.definitions):
        for smaller in _smaller_definitions(definition):
            if compiled_or_none(smaller) is not None:
                yield msgspec.structs.replace(plan, definitions=_replaced(plan.definitions, number, smaller))


def _named(plan: Plan) -> set[str]:
    """Definitions that others start runs of."""
    return {name for definition in plan.definitions for name in named_definitions(definition)}


def _parts(whole: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """The sequence without a half, a quarter, ..., one of its items."""
    size = len(whole)
    while size >= 1:
        size = size // 2 if size > 1 else 0
        step = max(size, 1)
        for first in range(0, len(whole), step):
            yield whole[:first] + whole[first + step :]


def _replaced(whole: Sequence[T], number: int, item: T) -> tuple[T, ...]:
    return (*whole[:number], item, *whole[number + 1 :])


def _without_start(plan: Plan, number: int) -> Plan:
    actions = tuple(
        msgspec.structs.replace(action, run=action.run - (action.run > number))
        for action in plan.actions
        if action.run != number
    )
    starts = plan.starts[:number] + plan.starts[number + 1 :]
    return msgspec.structs.replace(plan, starts=starts, actions=actions)


def _without_definition(plan: Plan, number: int) -> Plan:
    starts = tuple(
        msgspec.structs.replace(start, definition=start.definition - (start.definition > number))
        for start in plan.starts
    )
    definitions = plan.definitions[:number] + plan.definitions[number + 1 :]
    return msgspec.structs.replace(plan, starts=starts, definitions=definitions)


def _with_fewer_hosts(plan: Plan) -> Plan:
    count = plan.hosts.count - 1
    return msgspec.structs.replace(
        plan,
        hosts=msgspec.structs.replace(plan.hosts, count=count),
        starts=tuple(msgspec.structs.replace(start, via=min(start.via, count)) for start in plan.starts),
        actions=tuple(msgspec.structs.replace(action, via=min(action.via, count)) for action in plan.actions),
        faults=tuple(fault for fault in plan.faults if fault.host <= count),
    )


def _smaller_definitions(definition: JsonObject) -> Iterator[JsonObject]:
    steps = _steps(definition)
    for step in steps if len(steps) > 1 else ():
        ref = str(step["ref"])
        yield definition | {"steps": [_without_ref(other, ref) for other in steps if other is not step]}
    for key in definition.keys() - {"ductor", "name", "steps", "context"}:
        yield {other: value for other, value in definition.items() if other != key}
    for number, step in enumerate(steps):
        for smaller in _smaller_steps(step):
            yield definition | {"steps": list(_replaced(steps, number, smaller))}


def _smaller_steps(step: JsonObject) -> Iterator[JsonObject]:
    for key in sorted(step.keys() - NEEDED_KEYS):
        yield {other: value for other, value in step.items() if other != key}
    inner = step.get("do")
    if isinstance(inner, dict):
        smaller_ones = _smaller_definitions(inner) if "steps" in inner else _smaller_steps(inner)
        for smaller in smaller_ones:
            yield step | {"do": smaller}


def _steps(definition: JsonObject) -> list[JsonObject]:
    steps = definition["steps"]
    assert isinstance(steps, list)
    return [step for step in steps if isinstance(step, dict)]


def _without_ref(step: JsonObject, ref: str) -> JsonObject:
    """The step with nothing that names `ref`; a join that counted it becomes an ordinary one."""
    smaller = dict(step)
    edges = step.get("next")
    if isinstance(edges, dict):
        kept = {outcome: _without_target(targets, ref) for outcome, targets in edges.items()}
        smaller["next"] = {outcome: targets for outcome, targets in kept.items() if targets}
        if not smaller["next"]:
            del smaller["next"]
    if step.get("cancels") == [ref]:
        del smaller["cancels"]
    if isinstance(step.get("join"), int):
        smaller.pop("join")
        smaller.pop("cancel_rest", None)
    return smaller


def _without_target(targets: JsonValue, ref: str) -> JsonValue:
    if isinstance(targets, list):
        return [target for target in targets if target != ref]
    if isinstance(targets, dict) and isinstance(branches := targets.get("choice"), list):
        others = [branch["to"] for branch in branches if isinstance(branch, dict) and branch["to"] != ref]
        return targets if len(others) == len(branches) else list(others)
    return targets
