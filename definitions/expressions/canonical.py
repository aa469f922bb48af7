"""JSON values as canonical text (RFC 8785)."""

import rfc8785

from ductor.definitions.expressions.cel_values import integer_text
from ductor.definitions.expressions.errors import Fault
from ductor.definitions.values import JsonValue


def canonical_text(value: JsonValue) -> str:
    """The canonical JSON of a value; an integer alone may have any size.

    Raises:
        Fault: `not_json` for an integer beyond 2^53 inside a list or an object, which canonical JSON can't hold.
    """
    if type(value) is int:
        return integer_text(value)
    try:
        return rfc8785.dumps(value).decode("utf-8")
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise Fault("not_json", f"the value has no canonical JSON: {error}") from None
