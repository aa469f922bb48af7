"""A second opinion on gathers: what one gives is made anew from its children, by another code than the engine's.

Rule *gather*: the results stand in the order of the items, each once; what its strategy says becomes of the others.
"""

from collections.abc import Callable, Iterator

from ductor.actors.tick.gathering import CHILD_CANCELLED, error_value, output_of
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.codec import encode_value
from ductor.journal.state import Fanout, RunState


def check_gathers(state: RunState, report: Callable[[str], None]) -> None:
    """Every gather of a run that has succeeded. `state` needs the large values of the results."""
    for ref, node in state.nodes.items():
        scatter = state.nodes.get(node.gathers) if node.gathers else None
        if scatter is None or scatter.fanout is None or node.status != "succeeded":
            continue
        state.gathered.pop(ref, None)
        found = output_of(state, ref, node)
        pairs = list(_results(state, node.gathers, scatter.fanout, node.gather_strategy))
        results: JsonValue = dict(pairs) if scatter.fanout.is_map else [value for _, value in pairs]
        expected: JsonValue = {
            "result": results,
            "error": _errors(state, node.gathers, scatter.fanout, node.gather_strategy),
        }
        if encode_value(found) != encode_value(expected):  # as text: the order of a map's keys counts
            report(f"{ref} gives {str(found)[:200]}, and its children {str(expected)[:200]}")


def _results(state: RunState, scatter: str, fanout: Fanout, strategy: str) -> Iterator[tuple[str, JsonValue]]:
    for index in range(fanout.total):
        child = state.nodes.get(f"{scatter}[{index}]")
        key = fanout.keys[index] if fanout.keys else str(index)
        if child is not None and child.status == "succeeded":
            yield key, state.value(child.output, child.output_ref)
        elif strategy == "include":
            has_failed = child is not None and child.status == "failed"
            yield key, error_value(child.error) if child is not None and has_failed else CHILD_CANCELLED


def _errors(state: RunState, scatter: str, fanout: Fanout, strategy: str) -> JsonObject:
    if strategy not in {"partition", "raise"}:
        return {}
    failed: JsonObject = {}
    for index in range(fanout.total):
        child = state.nodes.get(f"{scatter}[{index}]")
        if child is not None and child.status == "failed":
            failed[fanout.keys[index] if fanout.keys else str(index)] = error_value(child.error)
    return failed
