"""Runs the tests of many mutants in one session of pytest: it loads and measures once, and forks for each mutant.

A child plants its mutant, runs the tests that reach it one after another, and ends with the first that fails; the
parent never runs a test, so no cache of a test or of the engine outlives a mutant. Tests that failed for other mutants
of the same function come first, then those that are quick.

What ends a child: all its tests passed (survived), one failed, it used too much time or memory, or it broke (all
three: killed). The tests must be of the pure core: a child ends without giving back what a fixture holds.
"""

import gc
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import pytest
from hypothesis import Phase, settings

from scripts.mutation.coverage import Line, LineTracer, Measured
from scripts.mutation.mutants import Mutant
from scripts.mutation.planting import LoadedModule

MIN_CPU_SECONDS_PER_TEST: Final = 5.0
SLOWER_THAN_MEASURED_MAX: Final = 5
"""A test that needs more CPU time than this many times what it needed while it was traced runs on for ever."""

MAX_SECONDS_PER_TEST: Final = 300
"""One that waits for what never comes uses no CPU time."""

MEMORY_OF_A_CHILD_BYTES: Final = 4 << 30

PASSED, FAILED = 0, 1


class Verdict(msgspec.Struct, frozen=True):
    """What became of a mutant: the number of tests that reach it, and whether one of them noticed."""

    file: Path
    mutant: Mutant
    reached_by: int
    is_killed: bool


class TestsFailError(Exception):
    """Tests that fail without a mutant would notice everything."""


class MutationSession:
    """A plugin of pytest that tries mutants in place of running the tests; `verdicts` is what it found."""

    def __init__(self, chosen: Sequence[tuple[Path, Mutant]], seconds: float) -> None:
        self.verdicts: Final[list[Verdict]] = []
        self.error: Exception | None = None
        self._chosen, self._seconds = chosen, seconds
        self._items: list[pytest.Item] = []
        self._measured: list[Measured] = []
        self._tests_by_line: dict[Line, set[int]] = {}
        self._everywhere: set[int] = set()
        self._killers: Counter[tuple[Path, str, int]] = Counter()
        self._has_failed = False

    def pytest_sessionstart(self) -> None:
        """Properties fail with the first example that shows it, without looking for a smaller one."""
        settings.register_profile("mutation", settings(), phases=[Phase.explicit, Phase.generate])
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure, then try the mutants. What goes wrong is kept for who has begun the session."""
        try:
            if session.testsfailed:
                raise TestsFailError("some tests can't be loaded")
            self._items = session.items
            modules = {file: LoadedModule(file) for file in {file for file, _ in self._chosen}}
            self._measured = self._measure(frozenset(str(file) for file in modules))
            failing = [item.nodeid for item, one in zip(self._items, self._measured, strict=True) if not one.is_passed]
            if failing:
                raise TestsFailError(f"{len(failing)} tests fail as they are, the first is {failing[0]}")
            self._find_tests_by_line()
            self._try_all(modules)
        except Exception as error:  # noqa: BLE001 - pytest would only print it
            self.error = error
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember, in a child, that its test failed."""
        self._has_failed = self._has_failed or report.failed

    def _measure(self, files: frozenset[str]) -> list[Measured]:
        told, status = _in_child(lambda out: pickle.dump(self._measured_here(files), out), is_silent=False)
        if status != PASSED:
            raise TestsFailError(f"the tests can't be measured: their process ended with {status}")
        measured: list[Measured] = pickle.loads(told)  # noqa: S301 - from our own child
        return measured

    def _measured_here(self, files: frozenset[str]) -> list[Measured]:
        tracer, found = LineTracer(files), []
        for index in range(len(self._items)):
            self._has_failed = False
            began = time.process_time()
            tracer.start()
            self._run(index)
            lines = tracer.stop()
            found.append(Measured(time.process_time() - began, not self._has_failed, lines))
        return found

    def _find_tests_by_line(self) -> None:
        for index, one in enumerate(self._measured):
            if one.lines is None:
                self._everywhere.add(index)
            for line in one.lines or ():
                self._tests_by_line.setdefault(line, set()).add(index)

    def _try_all(self, modules: dict[Path, LoadedModule]) -> None:
        gc.collect()
        gc.freeze()  # what children share with the parent stays shared
        ends_at = time.monotonic() + self._seconds
        for file, mutant in self._chosen:
            if time.monotonic() >= ends_at:
                return
            tests = self._tests_for(file, mutant) if modules[file].is_loaded(mutant) else []
            killer = self._first_that_fails(modules[file], mutant, tests)
            if killer is not None:
                self._killers[file, mutant.function, killer] += 1
            verdict = Verdict(file, mutant, len(tests), killer is not None)
            self.verdicts.append(verdict)
            self.tell(verdict)

    def tell(self, verdict: Verdict) -> None:
        """Called with each verdict as it is found."""

    def _tests_for(self, file: Path, mutant: Mutant) -> list[int]:
        reaching = set(self._everywhere)
        for line in range(mutant.line, mutant.end_line + 1):
            reaching |= self._tests_by_line.get((str(file), line), set())
        return sorted(
            reaching, key=lambda index: (-self._killers[file, mutant.function, index], self._measured[index].seconds)
        )

    def _first_that_fails(self, module: LoadedModule, mutant: Mutant, tests: Sequence[int]) -> int | None:
        """The test that notices; the last one begun where the mutant broke the process, or ran on for ever."""
        told, status = _in_child(lambda out: self._try_here(module, mutant, tests, out))
        if status == PASSED:
            return None
        if not told:
            raise RuntimeError(f"{module.file}:{mutant.line}: {mutant.what} could not be planted: status {status}")
        return int(told.split()[-1])

    def _try_here(self, module: LoadedModule, mutant: Mutant, tests: Sequence[int], out: BinaryIO) -> None:
        module.plant(mutant)
        for index in tests:
            out.write(b"%d\n" % index)
            out.flush()
            signal.alarm(MAX_SECONDS_PER_TEST)
            limit = max(MIN_CPU_SECONDS_PER_TEST, SLOWER_THAN_MEASURED_MAX * self._measured[index].seconds)
            signal.setitimer(signal.ITIMER_PROF, limit)  # either signal ends the process
            self._has_failed = False
            self._run(index)
            if self._has_failed:
                os._exit(FAILED)

    def _run(self, index: int) -> None:
        item = self._items[index]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


def _in_child(work: Callable[[BinaryIO], None], *, is_silent: bool = True) -> tuple[bytes, int]:
    """Do some work in a child, in bounded memory: what it has written to its pipe, and how it ended."""
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            if is_silent:
                os.dup2(silence, 2)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_OF_A_CHILD_BYTES, resource.RLIM_INFINITY))
            with os.fdopen(write, "wb") as out:
                work(out)
            os._exit(PASSED)
        except BaseException:  # noqa: BLE001 - whatever it is, it must not go on as if this were the parent
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(FAILED)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    return told, os.waitpid(child, 0)[1]
