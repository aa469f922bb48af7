"""The model of appends and wakeups holds in every order of events, and fails without each of its mechanisms."""

import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.model.append_and_wakeup import Mechanisms, State, always, at_rest, steps
from tests.model.checker import Violation, check

RUN = Path(__file__).parents[2] / "scripts" / "model" / "run"

# So few states would mean that something in the model can't happen.
MIN_STATES = 1_000


def checked(mechanisms: Mechanisms) -> int:
    return check(State(), functools.partial(steps, mechanisms=mechanisms), always, at_rest)


def test_two_writers_never_win_one_version_and_nothing_is_forgotten():
    assert checked(Mechanisms()) >= MIN_STATES


@pytest.mark.parametrize(
    ("mechanisms", "what"),
    [
        (Mechanisms(checks_version=False), "two commits were told|taken in twice"),
        (Mechanisms(sweeps=False), "forgotten"),
    ],
)
def test_each_mechanism_is_needed(mechanisms, what):
    with pytest.raises(Violation, match=what):
        checked(mechanisms)


def test_a_commit_that_is_sent_again_without_its_id_is_taken_for_a_conflict():
    """The version check alone keeps the journal right; the id is what tells the sender so."""

    def wrong(state: State) -> str | None:
        for commit, is_written in state.answers:
            if not is_written and commit in state.rows:
                return "a commit that is written was refused"
        return always(state)

    def run(mechanisms: Mechanisms) -> int:
        return check(State(), functools.partial(steps, mechanisms=mechanisms), wrong, at_rest)

    assert run(Mechanisms()) >= MIN_STATES
    with pytest.raises(Violation, match="refused"):
        run(Mechanisms(knows_commit_ids=False))


def test_the_checker_finds_a_shortest_path():
    with pytest.raises(Violation) as caught:
        check(0, lambda n: [("one", n + 1), ("two", n + 2)] if n < 6 else [], lambda n: "five" if n == 5 else None, str)
    assert [state for _, state in caught.value.path] == [1, 3, 5]


@pytest.mark.skipif(shutil.which("spin") is None or shutil.which("cc") is None, reason="spin or cc is not installed")
def test_spin_agrees():
    done = subprocess.run([str(RUN)], check=False, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("holds") == done.stdout.count("fails") == 2
    assert len(re.findall(r"\(\d+ states, \d+ transitions, depth \d+\)$", done.stdout, re.MULTILINE)) == 4
