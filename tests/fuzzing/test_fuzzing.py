"""What reads input answers or refuses, whatever comes: damaged good input, and everything that once broke it.

`scripts/fuzz` looks further, guided by coverage, and keeps what it finds under `crashes/`.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.fuzzing.crashes import CRASHES, crash_folder, kept_crashes
from scripts.fuzzing.guided import keeping_what_breaks
from scripts.fuzzing.targets import TARGETS, UnfaithfulError, seeds

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


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_is_read(name):
    assert SEEDS[name]
    for seed in SEEDS[name]:
        TARGETS[name](seed)


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
