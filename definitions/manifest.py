"""The compiled form of a definition, its canonical JSON and its hash.

A manifest is identified by the SHA-256 of its canonical JSON (RFC 8785). Three rules keep the hash stable:

* a field at its default is left out, so that a later version may add fields; defaults are compared by value;
* numbers are the numbers of JSON: `2.0` and `2` are one number. Whoever needs the manifest decodes it from its
  canonical bytes, so that a manifest just compiled and one read from storage never differ;
* RFC 8785 carries integers only up to 2**53 - 1. Larger ones are refused, not rounded: an identifier of that size is
  text. The same goes for whole floats from 2**53 on that canonical JSON would write as such an integer.
"""

import hashlib
import math
from functools import cache
from typing import Final

import msgspec
import rfc8785

from ductor.definitions.errors import DuctorError
from ductor.definitions.model import Definition
from ductor.definitions.policies import Part
from ductor.definitions.values import JsonObject, JsonValue

INTEGER_MAX: Final = 2**53 - 1
"""The largest integer of canonical JSON; its negative is the smallest."""

_EXPONENT_FORM_FROM: Final = 1e21


class CanonicalizationError(DuctorError):
    """A value has no canonical JSON form.

    Attributes:
        reason: what is in the way, as a sentence.
    """

    code = "no_canonical_json"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"no canonical JSON: {reason}")


class ManifestError(DuctorError):
    """Stored JSON is no manifest that this version can read.

    Attributes:
        reason: what is wrong, with its path in the JSON.
    """

    code = "unreadable_manifest"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"this version can't read the manifest: {reason}. Run it on the version that published it.")


class CompiledManifest(Definition, frozen=True, kw_only=True):
    """A definition as a run uses it: `steps` in Kahn order, `edges` sorted, bodies likewise.

    Attributes:
        entrypoints: the steps without incoming edges, in Kahn order.
    """

    entrypoints: tuple[str, ...]


def canonical_json(value: JsonValue) -> bytes:
    """Return the canonical JSON (RFC 8785) of a value.

    Raises:
        CanonicalizationError: for NaN, infinities, integers beyond 2**53 - 1, lone surrogates, keys that are no text,
            or nesting too deep.
    """
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise CanonicalizationError(str(error)) from error
    except UnicodeEncodeError as error:
        raise CanonicalizationError("text holds half a surrogate pair, which is no character") from error
    except RecursionError as error:
        raise CanonicalizationError("the value is nested too deeply") from error


def number_is_canonical(number: float) -> bool:
    """Whether canonical JSON carries the number and gives the same number back."""
    if isinstance(number, int):
        return -INTEGER_MAX <= number <= INTEGER_MAX
    if not math.isfinite(number):
        return False
    return not (number.is_integer() and INTEGER_MAX < abs(number) < _EXPONENT_FORM_FROM)


def encode_manifest(manifest: CompiledManifest) -> bytes:
    """Return the canonical JSON of a manifest.

    Raises:
        CanonicalizationError: as `canonical_json`.
    """
    return canonical_json(_plain(manifest))


def decode_manifest(data: bytes | str) -> CompiledManifest:
    """Read a manifest from JSON.

    Raises:
        ManifestError: the JSON is no manifest of this version.
    """
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError as error:
        raise ManifestError(str(error)) from error


def manifest_hash(canonical: bytes) -> str:
    """Return the identity of a manifest, given its canonical JSON: SHA-256, 64 hexadecimal digits."""
    return hashlib.sha256(canonical).hexdigest()


def _plain(part: Part) -> JsonObject:
    """A part as JSON, without fields that equal their default. (msgspec leaves out only what is the same object.)"""
    result: JsonObject = {}
    config = part.__struct_config__
    if config.tag_field is not None:
        result[config.tag_field] = config.tag
    for name, encoded, default in _fields_of(type(part)):
        value = getattr(part, name)
        if value is msgspec.UNSET or value == default:
            continue
        result[encoded] = _plain_value(value)
    return result


def _plain_value(value: object) -> JsonValue:
    if isinstance(value, Part):
        return _plain(value)
    if isinstance(value, tuple):
        return [_plain_value(item) for item in value]
    if isinstance(value, dict) and value and isinstance(next(iter(value.values())), Part):
        return {key: _plain_value(item) for key, item in value.items()}
    return value  # type: ignore[return-value]  # what is neither part nor tuple is JSON already


@cache
def _fields_of(struct: type[Part]) -> tuple[tuple[str, str, object], ...]:
    """Of each field its name, its name in JSON, and its default (`NODEFAULT` where there is none)."""
    return tuple(
        (field.name, field.encode_name, field.default if field.default_factory is msgspec.NODEFAULT else {})
        for field in msgspec.structs.fields(struct)
    )


_DECODER = msgspec.json.Decoder(CompiledManifest)
