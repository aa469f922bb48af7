"""Plants mutants, all or as many by chance as fit into the time: `python -m scripts.mutation`; see `scripts/mutate`."""

import argparse
import math
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest

from scripts.mutation.equivalents import Equivalent, read_equivalents, without_equivalents
from scripts.mutation.mutants import Mutant, mutants_of
from scripts.mutation.session import MutationSession, TestsFailError, Verdict

CHECKOUT: Final = Path(__file__).resolve().parents[2]

DEFAULT_SECONDS: Final = 300
MUTATED: Final = ("journal/fold*.py", "actors/tick/*.py", "actors/steps/*.py")
TESTS: Final = (
    "tests/journal/test_fold.py",
    "tests/journal/test_fold_children.py",
    "tests/journal/test_fold_keeps.py",
    "tests/journal/test_compaction.py",
    "tests/corpus",
    "tests/actors/tick",
)
CONFIDENCE: Final = 1.96
"""Standard deviations on either side of a rate: the truth lies there in 95 of 100 samples."""


def main() -> int:
    """Mutate; the exit code is 1 where a mutant survived or an entry is stale, 2 where the tests fail without one."""
    parser = argparse.ArgumentParser(prog="scripts/mutate", description="Mutation testing of the fold and the tick.")
    parser.add_argument("--seconds", type=int, default=DEFAULT_SECONDS, help=f"default: {DEFAULT_SECONDS}")
    parser.add_argument("--seed", type=int, default=1, help="which mutants, and in which order; default: 1")
    parser.add_argument("--module", action="append", help="files to mutate, as `journal/fold*.py`; default: all")
    parser.add_argument("--test", action="append", help="files or folders of tests; default: those of the pure core")
    arguments = parser.parse_args()
    files = mutated_files(arguments.module or MUTATED)
    if not files:
        parser.error("no such module")
    mutants, equivalents, stale = chosen_mutants(files)
    random.Random(arguments.seed).shuffle(mutants)  # noqa: S311 - chance that can be repeated
    try:
        verdicts = mutate(mutants, arguments.seconds, arguments.test or TESTS)
    except TestsFailError as error:
        print(f"scripts/mutate: {error}", file=sys.stderr)
        return 2
    for entry in stale:
        print(f"no such mutant any more: {entry.module}: {entry.function}: {entry.what}")
    print("\n".join(report(verdicts, len(mutants), equivalents)))
    return 1 if stale or any(not one.is_killed for one in verdicts) else 0


def mutated_files(patterns: Iterable[str] = MUTATED) -> list[Path]:
    """The files of the fold, the tick and the steps."""
    return [file for pattern in patterns for file in sorted(CHECKOUT.glob(pattern))]


def chosen_mutants(files: Sequence[Path]) -> tuple[list[tuple[Path, Mutant]], int, list[Equivalent]]:
    """The mutants worth a try, how many are equivalent, and the entries of that list that are out of date."""
    entries = read_equivalents()
    chosen: list[tuple[Path, Mutant]] = []
    count, stale = 0, list[Equivalent]()
    for file in files:
        every = mutants_of(file.read_text())
        worth, unused = without_equivalents(str(file.relative_to(CHECKOUT)), every, entries)
        chosen += [(file, mutant) for mutant in worth]
        count += len(every) - len(worth)
        stale += unused
    return chosen, count, stale


class TellingSession(MutationSession):
    """Names each survivor as it is found."""

    def tell(self, verdict: Verdict) -> None:
        """Print one that survived."""
        if not verdict.is_killed:
            file, mutant = verdict.file.relative_to(CHECKOUT), verdict.mutant
            tests = f"{verdict.reached_by} tests" if verdict.reached_by else "no test"
            print(f"survived: {file}:{mutant.line}: {mutant.function}: {mutant.what} ({tests} run it)", flush=True)


def mutate(mutants: Sequence[tuple[Path, Mutant]], seconds: float, tests: Iterable[str]) -> list[Verdict]:
    """Try mutants in their order until the time is over. Raises `TestsFailError` where the tests fail without one."""
    session = TellingSession(mutants, seconds)
    # Plain assertions, because what rewrites them compiles modules in its own way.
    options = ["-q", "-s", "--no-header", "--no-summary", "--assert=plain", "-p", "no:cacheprovider"]
    options += ["--timeout", "0"]  # tests that are traced are slow; mutants have limits of their own
    ended = pytest.main([*options, *(str(CHECKOUT / test) for test in tests)], plugins=[session])
    if session.error is not None:
        raise session.error
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise TestsFailError(f"pytest ended with {ended!r}")
    return session.verdicts


def report(verdicts: Sequence[Verdict], count: int, equivalents: int) -> list[str]:
    """A line for each module, and one for all; where only some of `count` mutants were tried, with its confidence."""
    lines = []
    for file in sorted({one.file for one in verdicts}):
        own = [one for one in verdicts if one.file == file]
        lines.append(f"{file.relative_to(CHECKOUT)!s:34} {_killed(own)} of {len(own)} killed")
    killed, tried = _killed(verdicts), len(verdicts)
    lines.append(
        f"{tried} of {count} mutants tried: {killed} killed, {tried - killed} survived; {equivalents} equivalent"
    )
    if 0 < tried < count:
        low, high = wilson_interval(killed, tried)
        lines.append(f"killed, of all: {killed / tried:.1%}; with 95 % confidence {low:.1%} to {high:.1%}")
    return lines


def _killed(verdicts: Iterable[Verdict]) -> int:
    return sum(one.is_killed for one in verdicts)


def wilson_interval(successes: int, tries: int) -> tuple[float, float]:
    """Where a rate lies of which a sample is known (Wilson's score interval, 95 %)."""
    rate, square = successes / tries, CONFIDENCE**2
    middle = (rate + square / (2 * tries)) / (1 + square / tries)
    width = CONFIDENCE / (1 + square / tries) * math.sqrt(rate * (1 - rate) / tries + square / (4 * tries**2))
    return max(0.0, middle - width), min(1.0, middle + width)


if __name__ == "__main__":
    sys.exit(main())
