"""Canonical JSON and what a manifest leaves out."""

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from ductor.definitions.errors import DuctorError
from ductor.definitions.manifest import (
    INTEGER_MAX,
    CanonicalizationError,
    CompiledManifest,
    canonical_json,
    encode_manifest,
    manifest_hash,
    number_is_canonical,
)
from ductor.definitions.policies import Retry
from ductor.definitions.steps import TaskStep
from ductor.definitions.values import JsonValue


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, "é\n"]}, '{"a":[true,null,"é\\n"],"b":1}'),
        (1.0, "1"), (1e21, "1e+21"), (1e-7, "1e-7"), (-0.0, "0"), (INTEGER_MAX, "9007199254740991"),
        ({"\ufb33": 1, "😀": 2}, '{"😀":2,"\ufb33":1}'),
    ],
)  # fmt: skip
def test_canonical_json(value, text):
    assert canonical_json(value) == text.encode()


@pytest.mark.parametrize("value", [INTEGER_MAX + 1, -INTEGER_MAX - 1, float("nan"), float("inf"), "\ud800", {1: 2}])
def test_what_has_no_canonical_json(value):
    with pytest.raises(CanonicalizationError) as caught:
        canonical_json({"deep": [value]})
    assert caught.value.reason
    assert isinstance(caught.value, DuctorError)


def test_values_nested_too_deeply_are_refused():
    value: JsonValue = []
    for _ in range(20_000):
        value = [value]
    with pytest.raises(CanonicalizationError, match="nested"):
        canonical_json(value)


@given(st.floats() | st.integers())
def test_a_canonical_number_comes_back_as_itself(number):
    if number_is_canonical(number):
        text = rfc8785.dumps(number).decode()
        again = float(text) if any(mark in text for mark in ".e") else int(text)
        assert again == number
        assert number_is_canonical(again)


@pytest.mark.parametrize("number", [2.0**53, 1e16, 1e20, -1e18, 2**53])
def test_whole_numbers_that_would_come_back_too_large_are_not_canonical(number):
    assert not number_is_canonical(number)


def test_fields_at_their_default_are_left_out_by_value():
    def manifest(**fields):
        return CompiledManifest(name="x", steps=(TaskStep(ref="a", task="t", **fields),), entrypoints=("a",))

    plain = encode_manifest(manifest())
    assert plain == b'{"entrypoints":["a"],"name":"x","steps":[{"ref":"a","task":"t","type":"task"}]}'
    same_text = bytearray(b"default").decode()
    assert encode_manifest(manifest(queue=same_text, priority=int("0"), effects={})) == plain
    spelt = encode_manifest(manifest(retry=(Retry(max_attempts=int("3"), max_ms=int("60000"), factor=float("2")),)))
    assert b'"retry":[{"max_attempts":3}]' in spelt


def test_the_hash_is_sha256():
    assert manifest_hash(b"{}") == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
