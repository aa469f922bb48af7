"""Hypothesis strategies for what a journal can hold: exact JSON, every event, rows of events.

Events are drawn from the annotations of the vocabulary, so that a new one is tested on the day it is added.
"""

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.journal.codec import MAX_INTEGER_DIGITS
from ductor.journal.events import RUN_LEASE, AnyEvent

MAX_ROWS = 10
MAX_EVENTS_IN_ROW = 6

_BOUND = 10**MAX_INTEGER_DIGITS - 1

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
integers = st.one_of(
    st.integers(-10, 10),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**53, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, _BOUND, -_BOUND]),
)
floats = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | integers | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)

nodes = st.sampled_from(
    [
        "reserve",
        "pay",
        "größe",
        "😀",
        "each",
        "each[0]",
        "each[1]",
        f"pay{UNDO_SUFFIX}",
        f"each[1]{UNDO_SUFFIX}",
        RUN_LEASE,
    ]
)
names = st.sampled_from(["signal:paid", "event:shipped", "signal:größe"])
times_us = st.integers(0, 2**50)
counts = st.integers(0, 5)

# Fields whose values should meet those of other events. The rest goes by its type.
_BY_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "node": nodes,
    "nodes": st.lists(nodes, max_size=3, unique=True).map(tuple),
    "key": nodes | st.sampled_from(["@timeout", "@grace"]),
    "id": st.sampled_from(["message-1", "message-2", "message-3"]),
    "message_id": st.sampled_from(["message-1", "message-2", "message-3"]),
    "names": st.lists(names, max_size=2, unique=True).map(tuple),
}


def _of_type(annotation: Any, field: str) -> st.SearchStrategy[Any]:
    """Values of a field."""
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if get_origin(annotation) in {Union, UnionType}:
        return st.one_of(*(_of_type(option, field) for option in get_args(annotation)))
    if get_origin(annotation) is tuple:
        item = get_args(annotation)[0]
        if item is str:
            return _BY_FIELD["names" if field == "names" else "nodes"]
        return st.lists(_of_type(item, field), max_size=3).map(tuple)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return structs(annotation)
    if annotation is str:
        return _BY_FIELD.get(field, texts)
    if annotation is int:
        return times_us if field.endswith("_us") else counts
    plain: dict[Any, st.SearchStrategy[Any]] = {
        NoneType: st.none(),
        bool: st.booleans(),
        Any: json_values,
        dict[str, Any]: json_objects,
        dict[str, str]: st.dictionaries(nodes, texts, max_size=2),
        dict[str, tuple[int, ...]]: st.dictionaries(nodes, st.lists(counts, max_size=2).map(tuple), max_size=2),
    }
    return plain[annotation]


def structs(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Any struct of a kind, with and without its optional fields."""
    hints = get_type_hints(kind)
    required = {field.name for field in msgspec.structs.fields(kind) if field.required}
    drawn = {field: _of_type(hints[field], field) for field in kind.__struct_fields__}
    return st.fixed_dictionaries(
        {field: values for field, values in drawn.items() if field in required},
        optional={field: values for field, values in drawn.items() if field not in required},
    ).map(lambda fields: kind(**fields))


events: st.SearchStrategy[AnyEvent] = st.one_of(*(structs(kind) for kind in get_args(AnyEvent)))
rows = st.lists(st.lists(events, max_size=MAX_EVENTS_IN_ROW), max_size=MAX_ROWS)
