"""The library's functions that write values as text and read them back."""

import base64
import hashlib
import json
from uuid import UUID, uuid5

from ductor.definitions.expressions.budget import Meter
from ductor.definitions.expressions.cel_values import Value, is_plain_json
from ductor.definitions.expressions.errors import BudgetFault, Fault
from ductor.definitions.expressions.functions.declared import Function
from ductor.definitions.expressions.functions.texts import json_text, text_argument
from ductor.definitions.expressions.operators import no_overload

UUID_NAMESPACE = UUID("6f9d3b0a-6a37-5d1c-9a5e-1f0b8f2c7d44")
"""The namespace of `uuid(name)`; changing it would change every identifier ever made."""
UNITS_PER_UUID = 20
"""What it costs to make a UUID, beside reading its name."""
MAX_JSON_LENGTH = 256_000
"""Characters of a text that `parse_json` reads."""


def to_json_text(meter: Meter, value: Value) -> str:
    """The canonical JSON of a value."""
    return json_text(meter, value)


def parse_json(meter: Meter, text: Value) -> Value:
    """The value of a JSON text."""
    source = text_argument("parse_json", meter, text)
    if len(source) > MAX_JSON_LENGTH:
        raise BudgetFault(f"parse_json() reads {MAX_JSON_LENGTH} characters, not {len(source)}")
    try:
        value = json.loads(source, parse_constant=_refuse_constant)
        if is_plain_json(value):
            return value
    except (ValueError, RecursionError) as error:
        raise Fault("invalid_argument", f"parse_json() got a text that is not JSON: {error}") from None
    raise Fault("invalid_argument", "parse_json() got a number that is too large for a double")


def _refuse_constant(name: str) -> Value:
    raise ValueError(f"{name} is not JSON")


def _bytes_of(name: str, meter: Meter, value: Value) -> bytes:
    """Bytes as they are, a text in UTF-8, all else as canonical JSON."""
    data = value if type(value) is bytes else None
    if data is None:
        text = value if type(value) is str else to_json_text(meter, value)
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError:
            raise Fault("invalid_argument", f"{name}() got a text with half a surrogate pair") from None
    meter.make_text(len(data))
    return data


def to_base64(meter: Meter, value: Value) -> str:
    """The base64 of bytes or of a text in UTF-8."""
    if type(value) not in (bytes, str):
        no_overload("base64()", value)
    return base64.b64encode(_bytes_of("base64", meter, value)).decode("ascii")


def sha256(meter: Meter, value: Value) -> str:
    """The SHA-256, in hexadecimal, of bytes, of a text in UTF-8, or of the canonical JSON of anything else."""
    return hashlib.sha256(_bytes_of("hash", meter, value)).hexdigest()


def uuid(meter: Meter, name: Value) -> str:
    """A UUID that is always the same for the same name (version 5)."""
    meter.charge(UNITS_PER_UUID)
    return str(uuid5(UUID_NAMESPACE, text_argument("uuid", meter, name)))


ENCODING_FUNCTIONS = (
    Function(name="json", implementation=to_json_text, least=1, most=1),
    Function(name="parse_json", implementation=parse_json, least=1, most=1),
    Function(name="base64", implementation=to_base64, least=1, most=1),
    Function(name="hash", implementation=sha256, least=1, most=1),
    Function(name="uuid", implementation=uuid, least=1, most=1),
)
