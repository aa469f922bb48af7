"""How a value is filed where events look for their waits: the publishing and the waiting side use the same text."""

from hashlib import sha256

from ductor.definitions.expressions.canonical import canonical_text
from ductor.definitions.expressions.errors import Fault
from ductor.definitions.values import JsonValue
from ductor.journal.codec import encode_value

MAX_KEY_TEXT_BYTES = 200
"""Longer texts are filed by their hash."""


def key_text(value: JsonValue) -> str:
    """Canonical JSON of a value, so that 1 and 1.0 are one; by hash where it is long."""
    try:
        text = canonical_text(value)
    except Fault:  # an integer beyond 2^53 inside a list or an object: exact text serves as well, by hash
        return sha256(encode_value(value)).hexdigest()
    encoded = text.encode()
    return text if len(encoded) <= MAX_KEY_TEXT_BYTES else sha256(encoded).hexdigest()


def value_at(payload: JsonValue, path: str) -> tuple[bool, JsonValue]:
    """The value of an event at a path below `event.payload`, and whether it is there.

    Args:
        path: as `payload.order_id`; a path that begins otherwise leads nowhere here.
    """
    first, _, rest = path.partition(".")
    if first != "payload":
        return False, None
    value = payload
    for key in rest.split(".") if rest else ():
        if not isinstance(value, dict) or key not in value:
            return False, None
        value = value[key]
    return True, value
