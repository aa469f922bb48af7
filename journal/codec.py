"""The border where values and bytes meet: events, snapshots and payloads as exact JSON text.

Two promises hold the journal together:

- What was let in comes back the same. `checked_value` refuses whatever JSON text would change or a database would not
  take (NaN, NUL, lone surrogates, tuples, keys that are no text, too deep, too long), naming the place in the value,
  and returns a copy that its sender can't change any more. Integers keep every digit, floats stay floats.
- What was written is read by the same vocabulary. A row with an unknown event is `UnknownEventError`, never a guess.

Everything is compact UTF-8; keys keep the order in which they were given, so text that is decoded and encoded again is
the same text, byte for byte.
"""

from collections import deque
from collections.abc import Sequence
from hashlib import sha256
from math import isfinite
from typing import get_origin

import msgspec

from ductor.definitions.values import JsonValue
from ductor.journal.commit import Payload
from ductor.journal.errors import UnknownEventError, UnreadableSnapshotError, ValueRefusedError
from ductor.journal.events import AnyEvent, ErrorInfo, PayloadRef
from ductor.journal.state import RunState

MAX_INLINE_BYTES = 32 * 1024
"""JSON text longer than this stands beside the journal, and the event holds a reference."""
MAX_VALUE_BYTES = 8 * 1024 * 1024
"""JSON text longer than this is refused."""
MAX_VALUE_DEPTH = 100
"""How deep lists and objects may be nested."""
MAX_VALUE_ITEMS = MAX_VALUE_BYTES // 2
"""List items and object entries of one value. Each takes two bytes at least; a value that shares its parts many times
over would otherwise be walked for ever before its size is known."""
MAX_INTEGER_DIGITS = 600
"""Below 640, the smallest limit on digits that an interpreter can be set to: what one host writes, all can read."""
MAX_KEY_BYTES = 255
"""UTF-8 bytes of a text that enters an index: names, start keys, request ids."""
MAX_ERROR_TYPE_CHARACTERS = 255
MAX_ERROR_MESSAGE_CHARACTERS = 4_000
MAX_ERROR_DETAILS_BYTES = 8 * 1024
"""An error has no reference form: its details stand in the event or are dropped, and say so."""

_INTEGER_BOUND = 10**MAX_INTEGER_DIGITS
_ESCAPED_NUL = b"\\u0000"
_CUT = "…"
_ATOMIC_TYPES = frozenset({str, bool, type(None)})
_FLAT_TYPES = frozenset({str, bool, int, type(None)})
_MAX_FLAT_ENTRIES = 32
"""Objects with more entries, or with others than texts, integers, booleans and nulls, are walked."""


class StoredValue(msgspec.Struct, frozen=True, gc=False):
    """A value, and what an event carries of it: itself (`inline`), or a reference and the payload to store beside."""

    value: JsonValue
    inline: JsonValue
    ref: PayloadRef | None
    payload: Payload | None
    size_bytes: int


def _plain(value: object) -> object:
    if isinstance(value, deque):
        return list(value)
    raise TypeError(f"{type(value).__name__} does not belong into a state")


def _restored(kind: type, value: object) -> object:
    if get_origin(kind) is deque and isinstance(value, list):
        return deque(value)
    raise TypeError(f"{kind} does not belong into a state")


_ENCODER = msgspec.json.Encoder()
_VALUE_DECODER = msgspec.json.Decoder()
_EVENTS_DECODER: msgspec.json.Decoder[list[AnyEvent]] = msgspec.json.Decoder(list[AnyEvent])
_STATE_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
_STATE_DECODER = msgspec.json.Decoder(RunState, dec_hook=_restored)


def encode_events(events: Sequence[AnyEvent]) -> bytes:
    """The JSON text of one journal row."""
    return _ENCODER.encode(events)


def decode_events(text: bytes, *, run_id: str, version: int) -> list[AnyEvent]:
    """The events of one journal row. Raises UnknownEventError, which names the row, when one is not known here."""
    try:
        return _EVENTS_DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnknownEventError(run_id, version, str(error)) from error


def encode_state(state: RunState) -> bytes:
    """A snapshot's text. Payloads are left out, which are stored under their hashes, and what is made of the rest."""
    timers = msgspec.structs.replace(state.timers, heap=[], absolute_heap=[])
    bare = msgspec.structs.replace(state, payloads={}, gathered={}, timers=timers)
    return _STATE_ENCODER.encode(bare)


def decode_state(data: bytes) -> RunState:
    """The state of a snapshot, its heap of timers rebuilt. The caller has compared the fold revision before.

    Raises:
        UnreadableSnapshotError: the bytes are no snapshot of this revision.
    """
    try:
        state = _STATE_DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableSnapshotError(str(error)) from error
    state.timers.rebuild()
    return state


def encode_value(value: JsonValue) -> bytes:
    """Exact JSON text of a checked value."""
    return _ENCODER.encode(value)


def decode_value(text: bytes, what: str = "JSON text") -> JsonValue:
    """The value of a JSON text. Raises ValueRefusedError for `what` when it is none, or can't be represented."""
    try:
        value: JsonValue = _VALUE_DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueRefusedError(what, "", str(error)) from error
    return value


def checked_value(value: object, what: str) -> JsonValue:
    """Let a value in: a copy of it, plain JSON through and through.

    Args:
        value: from outside (trigger, handler output, effect, control argument).
        what: names it in errors, as `trigger` or `output of step reserve`.

    Raises:
        ValueRefusedError: it can't be stored exactly; `path` says which part and `reason` why.
    """
    copy: JsonValue = _VALUE_DECODER.decode(_checked_text(value, what))
    return copy


def checked_text(text: str, what: str) -> str:
    """Let a text in that stands by itself. Raises ValueRefusedError for NUL and lone surrogates."""
    try:
        _check_texts(text)
    except _RefusalError as refusal:
        raise ValueRefusedError(what, "", refusal.reason) from None
    return text


def checked_key(text: str, what: str) -> str:
    """Let a text in that enters an index. Raises ValueRefusedError, also when it is longer than MAX_KEY_BYTES."""
    size_bytes = len(checked_text(text, what).encode())
    if size_bytes > MAX_KEY_BYTES:
        raise ValueRefusedError(what, "", f"it has {size_bytes} bytes, the limit is {MAX_KEY_BYTES}")
    return text


def stored_value(value: JsonValue, what: str) -> StoredValue:
    """Split a checked value into what an event carries and what stands beside it. Raises ValueRefusedError by size."""
    text = _ENCODER.encode(value)
    if len(text) > MAX_VALUE_BYTES:
        raise _oversized(what, len(text))
    return _split(value, text)


def admitted_value(value: object, what: str) -> StoredValue:
    """Let a value in and split it: `checked_value` and `stored_value` in one pass. Raises ValueRefusedError."""
    if type(value) is dict and (size_bytes := _flat_size_bytes(value)):
        copy: JsonValue = value.copy()
        return StoredValue(copy, copy, None, None, size_bytes)
    text = _checked_text(value, what)
    return _split(_VALUE_DECODER.decode(text), text)


def _flat_size_bytes(entries: dict[object, object]) -> int:
    """The bytes of JSON text of a short flat object, as most inputs and results are, that is known to come back the
    same; 0 where that takes a closer look."""
    if len(entries) > _MAX_FLAT_ENTRIES:
        return 0
    for key, item in entries.items():
        if type(key) is not str or type(item) not in _FLAT_TYPES:
            return 0
    try:
        text = _ENCODER.encode(entries)
    except ValueError:  # a lone surrogate, or an integer of thousands of digits
        return 0
    # in so short a text no integer has too many digits
    return len(text) if len(text) <= MAX_INTEGER_DIGITS and text.find(_ESCAPED_NUL) < 0 else 0


def _split(value: JsonValue, text: bytes) -> StoredValue:
    size_bytes = len(text)
    if size_bytes <= MAX_INLINE_BYTES:
        return StoredValue(value, value, None, None, size_bytes)
    digest = sha256(text).hexdigest()
    return StoredValue(value, None, PayloadRef(digest, size_bytes), Payload(digest, text), size_bytes)


def safe_text(text: str, limit: int) -> str:
    """Text that any store takes: NUL and lone surrogates escaped, cut to `limit` characters. Never refused."""
    cut = text[: limit + 1]
    if "\0" in cut or not cut.isascii():
        cut = cut.replace("\0", "\\u0000").encode("utf-8", "backslashreplace").decode("utf-8")
    return cut if len(cut) <= limit else cut[: limit - len(_CUT)] + _CUT


def safe_error(error: ErrorInfo) -> ErrorInfo:
    """An error that any store takes: texts escaped and cut, details that can't be stored replaced by the reason."""
    return msgspec.structs.replace(
        error,
        type=safe_text(error.type, MAX_ERROR_TYPE_CHARACTERS),
        message=safe_text(error.message, MAX_ERROR_MESSAGE_CHARACTERS),
        details=None if error.details is None else _safe_details(error.details),
    )


def _safe_details(details: object) -> JsonValue:
    try:
        text = _checked_text(details, "details")
    except ValueRefusedError as refusal:
        return {"dropped": safe_text(str(refusal), MAX_ERROR_MESSAGE_CHARACTERS)}
    if len(text) > MAX_ERROR_DETAILS_BYTES:
        return {"dropped": f"{len(text)} bytes of JSON text, the limit is {MAX_ERROR_DETAILS_BYTES}"}
    details_copy: JsonValue = _VALUE_DECODER.decode(text)
    return details_copy


class _RefusalError(Exception):
    """A part of a value is refused. `steps` leads from the part up to the whole: keys and indexes, innermost first."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.steps: list[str | int] = []


def _checked_text(value: object, what: str) -> bytes:
    """The text of a value from outside, once it is known to come back the same."""
    try:
        _check(value, MAX_VALUE_DEPTH, [MAX_VALUE_ITEMS])
        try:
            text = _ENCODER.encode(value)
        except UnicodeEncodeError:
            text = b""
        # The encoder meets every text anyway; where one is wrong is looked up only when one is.
        if not text or text.find(_ESCAPED_NUL) >= 0:
            _check_texts(value)
    except _RefusalError as refusal:
        raise ValueRefusedError(what, _path(refusal.steps), refusal.reason) from None
    if len(text) > MAX_VALUE_BYTES:
        raise _oversized(what, len(text))
    return text


def _oversized(what: str, size_bytes: int) -> ValueRefusedError:
    return ValueRefusedError(what, "", f"{size_bytes} bytes of JSON text, the limit is {MAX_VALUE_BYTES}")


def _check(value: object, depth_left: int, items_left: list[int]) -> None:
    """Raise _RefusalError for what JSON can't say exactly, texts aside. Exact types: a subclass would not come back."""
    kind = type(value)
    if type(value) is int:
        if not -_INTEGER_BOUND < value < _INTEGER_BOUND:
            raise _RefusalError(f"an integer of more than {MAX_INTEGER_DIGITS} digits")
    elif type(value) is float:
        if not isfinite(value):
            raise _RefusalError(f"{value!r} is no JSON number")
    elif type(value) is dict:
        _check_object(value, depth_left, items_left)
    elif type(value) is list:
        _check_list(value, depth_left, items_left)
    elif kind not in _ATOMIC_TYPES:
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        raise _RefusalError(f"a {name} is not plain JSON")


def _check_object(entries: dict[object, object], depth_left: int, items_left: list[int]) -> None:
    _enter(len(entries), depth_left, items_left)
    for key, item in entries.items():
        if type(key) is not str:
            raise _RefusalError(f"the key {safe_text(repr(key), 80)} is no text")
        if type(item) not in _ATOMIC_TYPES and not (type(item) is int and -_INTEGER_BOUND < item < _INTEGER_BOUND):
            try:
                _check(item, depth_left - 1, items_left)
            except _RefusalError as refusal:
                refusal.steps.append(key)
                raise


def _check_list(items: list[object], depth_left: int, items_left: list[int]) -> None:
    _enter(len(items), depth_left, items_left)
    for index, item in enumerate(items):
        if type(item) not in _ATOMIC_TYPES and not (type(item) is int and -_INTEGER_BOUND < item < _INTEGER_BOUND):
            try:
                _check(item, depth_left - 1, items_left)
            except _RefusalError as refusal:
                refusal.steps.append(index)
                raise


def _enter(count: int, depth_left: int, items_left: list[int]) -> None:
    items_left[0] -= count
    if depth_left == 0:
        raise _RefusalError(f"it is nested deeper than {MAX_VALUE_DEPTH} levels")
    if items_left[0] < 0:
        raise _RefusalError(f"it has more than {MAX_VALUE_ITEMS} items, more than {MAX_VALUE_BYTES} bytes can hold")


def _check_texts(value: object) -> None:
    """Raise _RefusalError for the first text that holds NUL or a lone surrogate, keys included."""
    if isinstance(value, str):
        if "\0" in value:
            raise _RefusalError("it holds the NUL character, which a database does not take")
        if not value.isascii():
            surrogate = next((character for character in value if "\ud800" <= character <= "\udfff"), None)
            if surrogate is not None:
                raise _RefusalError(f"it holds the lone surrogate {surrogate!a}")
    elif isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            try:
                _check_texts(step)
                _check_texts(item)
            except _RefusalError as refusal:
                refusal.steps.append(step)
                raise


def _path(steps: list[str | int]) -> str:
    """The steps as people write them: `items[3].price`; a key that is no plain word stands in brackets."""
    parts: list[str] = []
    for step in reversed(steps):
        if isinstance(step, str) and step.isidentifier():
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f"[{step!a}]")
    return safe_text("".join(parts), 1_000)
