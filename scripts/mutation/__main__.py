"""Plants mutants by chance, as many as fit into the time: `python -m scripts.mutation`; see `scripts/mutate`."""

import argparse
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

from scripts.mutation.mutants import Mutant, mutants_of

CHECKOUT: Final = Path(__file__).resolve().parents[2]

DEFAULT_SECONDS: Final = 300
MAX_SECONDS_PER_MUTANT: Final = 300
"""One that makes the tests run on for ever counts as noticed."""

NO_MUTANT: Final = Mutant(-1, 0, "nothing")

TESTS: Final = ("tests/journal/test_fold.py", "tests/corpus", "tests/actors/tick")
ALL_PASSED: Final = 0
TESTS_FAILED: Final = (1, 2)


def main() -> int:
    """Mutate; the exit code is 1 where a mutant survived, 2 where the tests fail without one."""
    parser = argparse.ArgumentParser(prog="scripts/mutate", description="Mutation testing of the fold and the tick.")
    parser.add_argument("--seconds", type=int, default=DEFAULT_SECONDS, help=f"default: {DEFAULT_SECONDS}")
    parser.add_argument("--seed", type=int, default=1, help="which mutants, and in which order; default: 1")
    parser.add_argument("--module", action="append", help="a file of the fold or the tick; default: all of them")
    arguments = parser.parse_args()
    files = [CHECKOUT / one for one in arguments.module] if arguments.module else mutated_files()
    mutants = [(file, mutant) for file in files for mutant in mutants_of(file.read_text())]
    random.Random(arguments.seed).shuffle(mutants)  # noqa: S311 - chance that can be repeated
    if not files or noticed(files[0], NO_MUTANT):
        print("scripts/mutate: the tests fail as they are, so they would notice everything", file=sys.stderr)
        return 2
    return mutate(mutants, arguments.seconds)


def mutated_files() -> list[Path]:
    """The fold and the tick."""
    return [*sorted((CHECKOUT / "journal").glob("fold*.py")), *sorted((CHECKOUT / "actors" / "tick").glob("*.py"))]


def mutate(mutants: list[tuple[Path, Mutant]], seconds: int) -> int:
    """Plant one after another until the time is over; 1 where one survived."""
    ends_at = time.monotonic() + seconds
    count: Counter[str] = Counter()
    for file, mutant in mutants:
        if time.monotonic() >= ends_at:
            break
        is_noticed = noticed(file, mutant)
        count["killed" if is_noticed else "survived"] += 1
        if not is_noticed:
            print(f"survived: {file.relative_to(CHECKOUT)}:{mutant.line}: {mutant.what}", flush=True)
    tried = count.total()
    print(f"{tried} of {len(mutants)} mutants tried: {count['killed']} killed, {count['survived']} survived")
    return 1 if count["survived"] else 0


def noticed(file: Path, mutant: Mutant) -> bool:
    """Whether a test fails with the mutant planted. Raises where pytest itself could not run."""
    relative = file.relative_to(CHECKOUT)
    module = "ductor." + ".".join(relative.with_suffix("").parts)
    command = [sys.executable, "-m", "scripts.mutation.planting", module, str(file), str(mutant.number), *TESTS]
    try:
        ended = subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, timeout=MAX_SECONDS_PER_MUTANT)
    except subprocess.TimeoutExpired:
        return True
    if ended.returncode not in (ALL_PASSED, *TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {ended.returncode}: {ended.stdout.decode()[-2_000:]}")
    return ended.returncode != ALL_PASSED


if __name__ == "__main__":
    sys.exit(main())
