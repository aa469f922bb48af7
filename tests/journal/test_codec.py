import copy
import enum
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.definitions.values import JsonValue
from ductor.journal import codec
from ductor.journal.codec import (
    MAX_ERROR_DETAILS_BYTES,
    MAX_ERROR_MESSAGE_CHARACTERS,
    MAX_ERROR_TYPE_CHARACTERS,
    MAX_INLINE_BYTES,
    MAX_INTEGER_DIGITS,
    MAX_KEY_BYTES,
    MAX_VALUE_BYTES,
    MAX_VALUE_DEPTH,
    admitted_value,
    checked_key,
    checked_text,
    checked_value,
    decode_events,
    decode_state,
    decode_value,
    encode_events,
    encode_state,
    encode_value,
    safe_error,
    safe_text,
    stored_value,
)
from ductor.journal.errors import UnknownEventError, UnreadableSnapshotError, ValueRefusedError
from ductor.journal.events import AnyEvent, ErrorInfo, NodeParked, PayloadRef
from ductor.journal.state import RunState
from tests.journal.event_strategies import events, json_values


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


def nested(depth: int, inner: object = 1) -> object:
    """`inner` within `depth` lists and objects by turns."""
    for level in range(depth):
        inner = [inner] if level % 2 else {"in": inner}
    return inner


# --- exact values -----------------------------------------------------------------------------------------------------


@given(json_values)
def test_a_value_comes_back_exactly(value: JsonValue):
    """`repr` tells 1 from 1.0, -0.0 from 0.0, True from 1, and the order of keys."""
    assert repr(decode_value(encode_value(value))) == repr(value)
    assert repr(checked_value(value, "value")) == repr(value)


@given(json_values)
def test_text_that_is_decoded_and_encoded_is_the_same_text(value: JsonValue):
    text = encode_value(value)
    assert encode_value(decode_value(text)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, b"1.0"),
        (-0.0, b"-0.0"),
        (5e-324, b"5e-324"),
        (1.7976931348623157e308, b"1.7976931348623157e308"),
        (0.1 + 0.2, b"0.30000000000000004"),
        (2**64, b"18446744073709551616"),
        (-(2**63) - 1, b"-9223372036854775809"),
        ("ü\u2028\x7f", '"ü\u2028\x7f"'.encode()),
        ({"b": 1, "a": 2}, b'{"b":1,"a":2}'),
    ],
)
def test_the_text_of_values_that_others_change(value: JsonValue, text: bytes):
    assert encode_value(value) == text
    assert repr(decode_value(text)) == repr(value)


def test_a_checked_value_is_a_copy():
    inner = [1]
    value = {"items": inner}
    kept = checked_value(value, "trigger")
    inner.append(2)
    value["more"] = []
    assert kept == {"items": [1]}


def is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


@given(st.text())
def test_any_text_is_kept_or_refused(text: str):
    if is_storable(text):
        assert checked_value([text], "output") == [text]
    else:
        with pytest.raises(ValueRefusedError) as refused:
            checked_value([text], "output")
        assert refused.value.path == "[0]"


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (float("nan"), "", "nan is no JSON number"),
        ({"items": [1, {"price": float("inf")}]}, "items[1].price", "inf is no JSON number"),
        ([float("-inf")], "[0]", "-inf is no JSON number"),
        ({"a b": {"c": "x\0y"}}, "['a b'].c", "it holds the NUL character, which a database does not take"),
        ({"ok": 1, "k\0": 1}, "['k\\x00']", "it holds the NUL character, which a database does not take"),
        (["a", "b\ud800c"], "[1]", "it holds the lone surrogate '\\ud800'"),
        ({"\udc00": 1}, "['\\udc00']", "it holds the lone surrogate '\\udc00'"),
        ({"a": {1: 2}}, "a", "the key 1 is no text"),
        ({"a": {None: 2}}, "a", "the key None is no text"),
        ({Colour.RED: 2}, "", "the key <Colour.RED: 'red'> is no text"),
        ([[(1, 2)]], "[0][0]", "a tuple is not plain JSON"),
        ({"a": {1, 2}}, "a", "a set is not plain JSON"),
        ({"a": b"bytes"}, "a", "a bytes is not plain JSON"),
        ([datetime(2026, 1, 1, tzinfo=UTC)], "[0]", "a datetime.datetime is not plain JSON"),
        ([Decimal(1)], "[0]", "a decimal.Decimal is not plain JSON"),
        (OrderedDict(a=1), "", "a collections.OrderedDict is not plain JSON"),
        ([Colour.RED], "[0]", f"a {__name__}.Colour is not plain JSON"),
        ([Level.LOW], "[0]", f"a {__name__}.Level is not plain JSON"),
        (PayloadRef("ab12", 1), "", "a ductor.journal.events.PayloadRef is not plain JSON"),
        ([10**MAX_INTEGER_DIGITS], "[0]", f"an integer of more than {MAX_INTEGER_DIGITS} digits"),
        ([-(10**MAX_INTEGER_DIGITS)], "[0]", f"an integer of more than {MAX_INTEGER_DIGITS} digits"),
    ],
)
def test_what_is_no_exact_json_is_refused_with_its_place(value: object, path: str, reason: str):
    with pytest.raises(ValueRefusedError) as refused:
        checked_value(value, "output of step pay")
    error = refused.value
    assert (error.what, error.path, error.reason) == ("output of step pay", path, reason)
    assert "output of step pay" in str(error)
    str(error).encode()


def test_a_backslash_before_u0000_is_no_nul():
    assert checked_value("\\u0000", "output") == "\\u0000"


def test_depth_is_bounded():
    deepest = nested(MAX_VALUE_DEPTH)
    assert checked_value(deepest, "output") == deepest
    assert decode_value(encode_value(deepest)) == deepest
    with pytest.raises(ValueRefusedError, match=f"nested deeper than {MAX_VALUE_DEPTH} levels"):
        checked_value([deepest], "output")


def test_a_value_that_holds_itself_is_refused():
    value: list[object] = []
    value.append(value)
    with pytest.raises(ValueRefusedError, match="nested deeper"):
        checked_value(value, "output")


def test_a_value_that_shares_its_parts_without_end_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(codec, "MAX_VALUE_ITEMS", 10_000)
    value: list[object] = [1]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(ValueRefusedError, match="more than 10000 items"):
        checked_value(value, "output")


def test_size_is_bounded():
    largest = "x" * (MAX_VALUE_BYTES - 2)
    assert checked_value(largest, "output") == largest
    for refuse in (checked_value, stored_value):
        with pytest.raises(ValueRefusedError, match=f"{MAX_VALUE_BYTES + 1} bytes of JSON text"):
            refuse(largest + "x", "output")


@pytest.mark.parametrize("text", [b"", b"{", b"NaN", b"[1,]", b'"\\ud800"', b'"\xff"', b"1e400", b"[" * 5_000])
def test_text_that_is_no_json_is_refused(text: bytes):
    with pytest.raises(ValueRefusedError) as refused:
        decode_value(text, "input file")
    assert refused.value.what == "input file"


# --- keys and texts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["x" * MAX_KEY_BYTES, "ü" * (MAX_KEY_BYTES // 2), "", "😀"])
def test_keys_up_to_the_bound_are_let_in(key: str):
    assert checked_key(key, "key") == key


@pytest.mark.parametrize("key", ["x" * (MAX_KEY_BYTES + 1), "ü" * 128, "a\0", "\ud800"])
def test_other_keys_are_refused(key: str):
    with pytest.raises(ValueRefusedError) as refused:
        checked_key(key, "start key")
    assert refused.value.what == "start key"


def test_a_text_by_itself():
    assert checked_text("ü" * 1_000, "reason") == "ü" * 1_000
    with pytest.raises(ValueRefusedError):
        checked_text("a\0", "reason")


@given(st.text(), st.integers(1, 30))
def test_safe_text_is_never_refused(text: str, limit: int):
    safe = safe_text(text, limit)
    assert len(safe) <= limit
    assert checked_value(safe, "error") == safe
    if len(text) <= limit and is_storable(text):
        assert safe == text


def test_safe_text_shows_what_it_escaped_and_that_it_was_cut():
    assert safe_text("a\0b\ud800ü", 100) == "a\\u0000b\\ud800ü"
    assert safe_text("x" * 11, 10) == "x" * 9 + "…"
    assert safe_text("x" * 10, 10) == "x" * 10


def test_a_safe_error_can_be_stored():
    error = ErrorInfo(
        type="T\0" * 500, message="m\ud800" * 5_000, details={"at": float("nan")}, retryable=False, retry_after_ms=7
    )
    safe = safe_error(error)
    assert len(safe.type) == MAX_ERROR_TYPE_CHARACTERS
    assert len(safe.message) == MAX_ERROR_MESSAGE_CHARACTERS
    assert safe.details == {"dropped": "details can't be stored: at: nan is no JSON number"}
    assert (safe.retryable, safe.retry_after_ms) == (False, 7)


def test_a_safe_error_keeps_details_up_to_the_bound():
    fits = "x" * (MAX_ERROR_DETAILS_BYTES - 2)
    assert safe_error(ErrorInfo(type="T", details=fits)).details == fits
    dropped = safe_error(ErrorInfo(type="T", details=fits + "x")).details
    assert dropped == {
        "dropped": f"{MAX_ERROR_DETAILS_BYTES + 1} bytes of JSON text, the limit is {MAX_ERROR_DETAILS_BYTES}"
    }
    assert safe_error(ErrorInfo(type="T")) == ErrorInfo(type="T")


# --- what events carry ------------------------------------------------------------------------------------------------


def test_a_value_up_to_the_bound_stands_in_the_event():
    largest = "x" * (MAX_INLINE_BYTES - 2)
    stored = stored_value(largest, "output")
    assert (stored.inline, stored.ref, stored.payload, stored.size_bytes) == (largest, None, None, MAX_INLINE_BYTES)


def test_a_larger_value_stands_beside_it():
    value: JsonValue = {"text": "ü" * MAX_INLINE_BYTES}
    stored = stored_value(value, "output")
    assert stored.inline is None
    assert stored.ref is not None
    assert stored.payload is not None
    assert stored.ref.hash == stored.payload.hash
    assert stored.ref.size_bytes == stored.size_bytes == len(stored.payload.text)
    assert decode_value(stored.payload.text) == value
    assert stored_value(copy.deepcopy(value), "again") == stored
    assert stored_value("u" * MAX_INLINE_BYTES, "other").ref != stored.ref


@given(json_values)
def test_admitting_is_checking_and_splitting_in_one_pass(value: JsonValue):
    assert repr(admitted_value(value, "output")) == repr(stored_value(checked_value(value, "output"), "output"))


def test_admitting_refuses_and_splits_by_the_same_bounds():
    with pytest.raises(ValueRefusedError):
        admitted_value([float("nan")], "output")
    with pytest.raises(ValueRefusedError):
        admitted_value("x" * (MAX_VALUE_BYTES - 1), "output")
    inner = ["x" * MAX_INLINE_BYTES]
    admitted = admitted_value({"large": inner}, "output")
    inner.append("changed afterwards")
    assert admitted.value == {"large": ["x" * MAX_INLINE_BYTES]}
    assert (admitted.inline, admitted.ref) == (None, stored_value(admitted.value, "output").ref)


# --- events -----------------------------------------------------------------------------------------------------------


@given(st.lists(events, max_size=5))
def test_events_come_back_exactly(row: list[AnyEvent]):
    text = encode_events(row)
    decoded = decode_events(text, run_id="r", version=1)
    assert repr(decoded) == repr(row)
    assert encode_events(decoded) == text


@pytest.mark.parametrize(
    "text",
    [b'[{"type":"run_forgotten"}]', b'[{"type":"timer_fired"}]', b"[{}]", b"{}", b"[", b"\xff", b"[" * 5_000],
)
def test_a_row_that_is_not_understood_names_itself(text: bytes):
    with pytest.raises(UnknownEventError) as unknown:
        decode_events(text, run_id="run-7", version=9)
    assert (unknown.value.run_id, unknown.value.version) == ("run-7", 9)
    assert unknown.value.reason


# --- states -----------------------------------------------------------------------------------------------------------


def test_a_state_comes_back_without_payloads_and_with_its_timers():
    state = RunState(run_id="run-7", version=3, last_hash=b"\x00\xff", context={"n": 2**70, "f": 1.0})
    state.node("pay").status = "running"
    state.open_nodes["pay"] = None
    state.touched.extend(["ship", "pay"])
    state.payloads["ab12"] = [1]
    for key, due_at_us in (("b", 9), ("a", 5), ("b", 2), ("c", 1)):
        state.timers.set(key, due_at_us)
    state.timers.cancel("c")

    restored = decode_state(encode_state(state))
    assert restored.payloads == {}
    assert restored.timers.earliest() == (2, "b")
    assert sorted(restored.timers.heap) == [(2, "b"), (5, "a")]
    assert list(restored.touched) == ["ship", "pay"]
    assert repr(restored.context) == repr(state.context)
    assert encode_state(restored) == encode_state(state)
    assert state.payloads == {"ab12": [1]}


@pytest.mark.parametrize("data", [b"", b"{}", b'{"run_id":1}', b'{"run_id":"r","touched":{}}', b"[" * 5_000])
def test_what_is_no_snapshot_is_an_error_of_the_journal(data: bytes):
    with pytest.raises(UnreadableSnapshotError):
        decode_state(data)


def test_a_state_of_anything_else_is_a_defect():
    context: dict[str, Any] = {"x": object()}
    state = RunState(run_id="run-7", context=context)
    with pytest.raises(TypeError, match="does not belong"):
        encode_state(state)


@pytest.mark.parametrize(
    "value",
    [
        {"a": "nul \0"},
        {"a \0": 1},
        {"a": "\ud800"},
        {"a": 10**MAX_INTEGER_DIGITS},
        {"a": 10**5_000},
        {1: "a"},
        {"a": float("inf")},
        {"a": (1,)},
    ],
)
def test_a_flat_object_is_refused_for_what_any_value_is_refused_for(value: object):
    with pytest.raises(ValueRefusedError):
        admitted_value(value, "output")


@pytest.mark.parametrize("count", [0, 1, 32, 33])
def test_a_flat_object_is_admitted_as_a_copy_of_its_size(count: int):
    value: dict[str, JsonValue] = {f"k{number}": number for number in range(count)}
    admitted = admitted_value(value, "output")
    assert admitted.size_bytes == len(msgspec.json.encode(value))
    value["more"] = None
    assert admitted.value == admitted.inline == {f"k{number}": number for number in range(count)}


def test_events_leave_out_what_is_default():
    text = encode_events([NodeParked(node="pay", waiting="timer")])
    assert msgspec.json.decode(text) == [{"type": "node_parked", "node": "pay", "waiting": "timer"}]
