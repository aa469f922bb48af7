"""The macros that loop: `all`, `exists`, `exists_one`, `filter`, `map`.

A map is looped over by its keys, in order of their text, so that the result does not depend on how a map was stored.
Rounds are charged as they are made, each with the cost of its body.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ductor.definitions.expressions.cel_values import Value
from ductor.definitions.expressions.errors import BudgetFault, Fault
from ductor.definitions.expressions.frame import Closure, Frame
from ductor.definitions.expressions.operators import no_overload
from ductor.definitions.expressions.syntax import KeyedCall, Loop, LoopKind, walk

LoopBuilder: TypeAlias = Callable[[Closure, int, Closure | None, Closure, int], Closure]
"""Takes the source, the slot of the variable, the condition, the body, and the cost of a round."""


def round_cost(node: Loop | KeyedCall) -> int:
    """Units for one round: the operations of the body, those of loops inside it counted by themselves."""
    return sum(1 for child in node.children()[1:] for _ in walk(child))


def loop_items(frame: Frame, source: Value, name: str) -> list[Value]:
    """What a loop goes over: the items of a list, or the keys of a map in order."""
    if type(source) is list:
        return source
    if type(source) is dict:
        frame.charge(len(source))
        return sorted(source, key=str)
    return no_overload(f"{name}()", source)


def keyed_values(frame: Frame, items: Sequence[Value], slot: int, body: Closure, cost: int) -> list[Value]:
    """The value of `body` for each item."""
    frame.charge_iterations(len(items), cost)
    slots = frame.slots
    result = []
    for item in items:
        slots[slot] = item
        result.append(body(frame))
    return result


def _quantifier(name: str, *, deciding: bool) -> LoopBuilder:
    """`exists` is decided by a round that is true, `all` by one that is false, whatever fails beside it."""

    def build(source: Closure, slot: int, condition: Closure | None, body: Closure, cost: int) -> Closure:
        def run(frame: Frame) -> bool:
            failure: Fault | None = None
            for item in loop_items(frame, source(frame), name):
                frame.charge_iterations(1, cost)
                frame.slots[slot] = item
                try:
                    value = body(frame)
                    if value is deciding:
                        return deciding  # type: ignore[no-any-return]  # identity does not narrow Any
                    if type(value) is not bool:
                        no_overload(f"{name}()", value)
                except BudgetFault:
                    raise
                except Fault as fault:
                    failure = failure or fault
            if failure is not None:
                raise failure
            return not deciding

        return run

    return build


def _chosen(frame: Frame, items: list[Value], slot: int, test: Closure, cost: int, name: str) -> list[Value]:
    """The items for which `test` is true."""
    frame.charge_iterations(len(items), cost)
    slots = frame.slots
    chosen = []
    for item in items:
        slots[slot] = item
        value = test(frame)
        if value is True:
            chosen.append(item)
        elif value is not False:
            no_overload(f"{name}()", value)
    return chosen


def _build_filter(source: Closure, slot: int, condition: Closure | None, body: Closure, cost: int) -> Closure:
    return lambda frame: _chosen(frame, loop_items(frame, source(frame), "filter"), slot, body, cost, "filter")


def _build_exists_one(source: Closure, slot: int, condition: Closure | None, body: Closure, cost: int) -> Closure:
    def run(frame: Frame) -> bool:
        items = loop_items(frame, source(frame), "exists_one")
        return len(_chosen(frame, items, slot, body, cost, "exists_one")) == 1

    return run


def _build_map(source: Closure, slot: int, condition: Closure | None, body: Closure, cost: int) -> Closure:
    if condition is None:
        return lambda frame: keyed_values(frame, loop_items(frame, source(frame), "map"), slot, body, cost)
    test = condition

    def run_conditional(frame: Frame) -> list[Value]:
        items = loop_items(frame, source(frame), "map")
        frame.charge_iterations(len(items), cost)
        result = []
        for item in items:
            frame.slots[slot] = item
            value = test(frame)
            if value is True:
                result.append(body(frame))
            elif value is not False:
                no_overload("map()", value)
        return result

    return run_conditional


LOOPS: dict[LoopKind, LoopBuilder] = {
    "all": _quantifier("all", deciding=False),
    "exists": _quantifier("exists", deciding=True),
    "exists_one": _build_exists_one,
    "filter": _build_filter,
    "map": _build_map,
}
