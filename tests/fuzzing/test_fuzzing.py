"""What reads input answers or refuses, whatever comes: damaged good input, and everything that once broke it.

`scripts/fuzz` looks further, guided by coverage, and keeps what it finds under `crashes/`.
"""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.fuzzing.crashes import CRASHES, crash_folder, kept_crashes
from scripts.fuzzing.guided import PLAIN_SHARE, json_mutator, keeping_what_breaks
from scripts.fuzzing.json_damage import damaged_json
from scripts.fuzzing.seeds import MAX_WORDS, seeds, words
from scripts.fuzzing.targets import JSON_TARGETS, TARGETS, UnfaithfulError

EXAMPLES = 40

SEEDS = {name: tuple(seeds(name)) for name in TARGETS}


@st.composite
def damaged(draw, name):
    """A seed with parts cut out, doubled, replaced by parts of another seed, or by chance."""
    data = draw(st.sampled_from(SEEDS[name]))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 24)))
        other = draw(st.sampled_from(SEEDS[name]))
        at = draw(st.integers(0, len(other)))
        data = data[:start] + draw(st.sampled_from([b"", data[start:end] * 2, other[at : at + 24]])) + data[end:]
        data += draw(st.binary(max_size=2))
    return data


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_input(name):
    @given(damaged(name))
    @settings(max_examples=EXAMPLES)
    def run(data):
        TARGETS[name](data)

    run()


@pytest.mark.parametrize("name", sorted(JSON_TARGETS))
def test_damaged_json(name):
    @given(st.sampled_from(SEEDS[name]), st.integers(0, 2**32))
    @settings(max_examples=EXAMPLES)
    def run(data, seed):
        damaged = damaged_json(data, random.Random(seed))
        assert damaged is not None
        json.loads(damaged)
        TARGETS[name](damaged)

    run()


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_is_answered(name):
    """One that is refused would lead the fuzzer to nothing behind the door."""
    assert SEEDS[name]
    refused = [seed for seed in SEEDS[name] if not TARGETS[name](seed)]
    if name in ("expression", "template"):  # the page shows errors, too
        assert len(refused) < len(SEEDS[name]) / 2
    else:
        assert refused == []


@pytest.mark.parametrize("name", TARGETS)
def test_what_can_not_be_read_is_refused(name):
    assert not TARGETS[name](b"\xff{[(${")


def test_damaged_json_is_another_one_and_repeats_by_its_seed():
    text = b'{"a":[1,2,{"b":null}],"c":"text"}'
    found = [damaged_json(text, random.Random(seed)) for seed in range(200)]
    assert found == [damaged_json(text, random.Random(seed)) for seed in range(200)]
    assert len({*found, text}) > 100
    for one in found:
        assert one is not None
        json.loads(one)


@pytest.mark.parametrize("text", [b"", b"{", b"3", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_what_has_no_parts_is_not_damaged_as_json(text):
    assert damaged_json(text, random.Random(1)) is None


def test_the_mutator_keeps_to_the_size_and_damages_bytes_too():
    asked = []

    def as_bytes(data, max_size):
        asked.append(max_size)
        return b"bytes"

    mutate = json_mutator(as_bytes)
    text = json.dumps(["a" * 50, 1, 2]).encode()
    found = [mutate(text, 80, seed) for seed in range(500)]
    assert max(len(one) for one in found) <= 80
    assert 500 * PLAIN_SHARE / 2 < len(asked) < 400
    assert found.count(b"bytes") == len(asked)


def test_words_are_those_of_the_seeds_and_bounded():
    assert words([b'{"kind": "node_settled", "at": 3}', b"kind each"]) == [b"kind", b"node_settled", b"each"]
    assert len(words(b"word%d" % n for n in range(3_000))) == MAX_WORDS


@pytest.mark.parametrize("name", TARGETS)
def test_what_once_broke_it(name):
    for data in kept_crashes(crash_folder(name)):
        TARGETS[name](data)


def test_crashes_belong_to_targets():
    assert {path.parent for path in CRASHES.glob("*/*")} <= {crash_folder(name) for name in TARGETS}


def test_what_breaks_a_target_is_kept(tmp_path):
    def breaks(data):
        raise UnfaithfulError(data)

    with pytest.raises(UnfaithfulError):
        keeping_what_breaks(breaks, tmp_path / "crashes")(b"bad")
    assert kept_crashes(tmp_path / "crashes") == [b"bad"]


def test_an_answer_that_does_not_survive_is_a_fault(monkeypatch):
    monkeypatch.setattr("scripts.fuzzing.targets.decode_value", len)
    with pytest.raises(UnfaithfulError):
        TARGETS["value"](b"[1, 2]")
