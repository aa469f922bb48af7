"""What a gather gives: the results of a scatter's children in one value, made when somebody asks for it.

A gather's event says whose children it gathers and how; the results themselves stand in the journal once, with the
children. The value is `{"result": …, "error": …}`. Its result is a list in the order of the items, or, where the items
came from a map, an object by the children's keys.

| child | `partition`, `raise` | `include` | `drop` |
| --- | --- | --- | --- |
| succeeded | its output in `result` | its output in `result` | its output in `result` |
| failed | its error in `error`, by key | its error in `result` | left out |
| cancelled, or never started | left out | an error `ChildCancelled` in `result` | left out |
"""

from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.events import ErrorInfo
from ductor.journal.state import Fanout, NodeState, RunState

CHILD_CANCELLED: JsonObject = {
    "type": "ChildCancelled",
    "message": "the child was cancelled, or never started",
    "details": None,
}
"""Stands in the place of a child that has neither a result nor an error, under `include`."""


def error_value(error: ErrorInfo | None) -> JsonValue:
    """An error as expressions see it."""
    if error is None:
        return None
    return {"type": error.type, "message": error.message, "details": error.details}


def output_of(state: RunState, ref: str, node: NodeState) -> JsonValue:
    """The output of a step that succeeded; of a gather it is made now, if nobody has asked for it before.

    Raises:
        KeyError: a large value is not at hand.
    """
    if not node.gathers:
        return state.value(node.output, node.output_ref)
    if ref not in state.gathered:
        state.gathered[ref] = gathered(state, node.gathers, node.gather_strategy)
    return state.gathered[ref]


def gathered(state: RunState, scatter: str, strategy: str) -> JsonObject:
    """The results of a scatter's children as they stand now. A scatter that never had items has none."""
    node = state.nodes.get(scatter)
    fanout = None if node is None else node.fanout
    if fanout is None:
        return {"result": [], "error": {}}
    results: list[tuple[str, JsonValue]] = []
    errors: JsonObject = {}
    for index in range(fanout.total):
        child = state.nodes.get(f"{scatter}[{index}]")
        status = "pending" if child is None else child.status
        if child is not None and status == "succeeded":
            results.append((fanout.key(index), state.value(child.output, child.output_ref)))
        elif strategy == "include":
            error = error_value(child.error) if child is not None and status == "failed" else CHILD_CANCELLED
            results.append((fanout.key(index), error))
        elif child is not None and status == "failed" and strategy != "drop":
            errors[fanout.key(index)] = error_value(child.error)
    return {"result": _shaped(fanout, results), "error": errors}


def _shaped(fanout: Fanout, results: list[tuple[str, JsonValue]]) -> JsonValue:
    return dict(results) if fanout.is_map else [value for _, value in results]
