"""Scenario files ready to be played, and the stores they are played on."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Literal, Protocol, Self

import msgspec

from ductor.definitions.compile import Compiled, compile_text
from ductor.definitions.errors import DefinitionError, Place, Problem
from ductor.definitions.values import JsonObject
from ductor.journal.memory import MemoryStore
from ductor.journal.store import Store
from ductor.testing.clock import VirtualClock
from ductor.testing.crashes import CrashPoint, Moment, crash_differences, play_with_crashes
from ductor.testing.loop import run_in_virtual_time
from ductor.testing.outside import OutsideLoop, outside_store
from ductor.testing.scenarios.comparison import Difference, differences
from ductor.testing.scenarios.model import Scenario, ScenarioFile
from ductor.testing.scenarios.played import Played
from ductor.testing.scenarios.reader import read_scenario_file
from ductor.testing.scenarios.runner import Playing

StoreKind = Literal["memory", "postgres"]
CRASH_COMMITS_MAX: Final = 500
"""Commits of a scenario at which its host is killed one by one; longer ones are killed at this many of them."""


class Stores(Protocol):
    """Gives each scenario an empty store of its own."""

    @contextmanager
    def empty(self, clock: VirtualClock) -> Iterator[Store]:
        """An open store, closed at the end."""
        ...


class MemoryStores:
    """Stores in memory."""

    @contextmanager
    def empty(self, clock: VirtualClock) -> Iterator[Store]:
        """See `Stores`."""
        store = MemoryStore(clock)
        run_in_virtual_time(store.open(), clock=clock)
        yield store


class PostgresStores:
    """Databases of one embedded server, started by the first scenario and ended with this context manager."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._loop: OutsideLoop | None = None
        self._made = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def empty(self, clock: VirtualClock) -> Iterator[Store]:  # noqa: ARG002 - the loop that uses it has the clock
        """See `Stores`. The database's own clock tells virtual time, too."""
        from ductor.journal.postgres import PostgresStore  # noqa: PLC0415 - only where it is asked for
        from ductor.testing.database_clock import DatabaseClock  # noqa: PLC0415

        loop = self._loop or self._start()
        self._made += 1
        name = f"scenario_{self._made}"
        loop.run(self._server.create_database(name, template="template_scenario"))
        store, database_clock = PostgresStore(self._server.dsn(name)), DatabaseClock(self._server.dsn(name))
        loop.run(database_clock.__aenter__())
        loop.run(store.open())
        try:
            yield outside_store(store, loop, database_clock.set)
        finally:
            loop.run(store.close())
            loop.run(database_clock.__aexit__())
            loop.run(self._server.drop_database(name))

    def _start(self) -> OutsideLoop:
        from ductor.journal.embedded import EmbeddedPostgres  # noqa: PLC0415
        from ductor.journal.postgres import migrate  # noqa: PLC0415
        from ductor.testing.database_clock import replace_clock  # noqa: PLC0415

        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ductor-scenarios-"))
        self._loop = loop = self._stack.enter_context(OutsideLoop())
        self._server = EmbeddedPostgres(folder, fsync=False, database="template_scenario", stop_on_parent_death=True)
        loop.run(self._server.__aenter__())
        self._stack.callback(lambda: loop.run(self._server.__aexit__(None, None, None)))
        loop.run(migrate(self._server.dsn("template_scenario")))
        loop.run(replace_clock(self._server.dsn("template_scenario")))
        return loop


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a scenario; it passed when nothing differs."""

    scenario: Scenario
    played: Played
    differences: tuple[Difference, ...]


class Suite:
    """A scenario file and its definitions, compiled.

    Raises:
        DefinitionError: a definition is not valid; with all problems of all definitions.
    """

    def __init__(self, file: ScenarioFile) -> None:
        self.file = file
        self.compiled = _compiled(file)

    def play(self, scenario: Scenario, stores: Stores) -> Result:
        """Play a scenario and compare."""
        clock = VirtualClock()
        with stores.empty(clock) as store:
            playing = self._playing(scenario, store, clock)

            async def main() -> Played:
                await playing.live()
                return await playing.played()

            played = run_in_virtual_time(main(), clock=clock)
        return Result(scenario=scenario, played=played, differences=tuple(differences(scenario, played)))

    def play_with_crash(
        self, scenario: Scenario, stores: Stores, point: CrashPoint | None
    ) -> tuple[Played, Mapping[Moment, int]]:
        """Play a scenario and kill its host at `point`. Gives what came of it and how often there was what."""
        clock = VirtualClock()
        with stores.empty(clock) as store:
            return play_with_crashes(
                lambda its_store: self._playing(scenario, its_store, clock, restarts=True), store, point
            )

    def crash_at_every_commit(self, scenario: Scenario, stores: Stores) -> list[str]:
        """Play a scenario once for each commit and each side of it, killing the host there; then once killing it around
        all commits, once around all dispatches, and once around all acknowledgements.

        Returns:
            What differed from the undisturbed run; empty is good.
        """
        reference, counts = self.play_with_crash(scenario, stores, None)
        points = [CrashPoint(0, "before", every=True, at=moment) for moment in counts]
        for number in range(1, min(counts["commit"], CRASH_COMMITS_MAX) + 1):
            points += [CrashPoint(number, "before"), CrashPoint(number, "after")]
        found: list[str] = []
        for point in points:
            crashed, _ = self.play_with_crash(scenario, stores, point)
            found.extend(f"killed {point}: {line}" for line in crash_differences(reference, crashed))
        return found

    def _playing(self, scenario: Scenario, store: Store, clock: VirtualClock, *, restarts: bool = False) -> Playing:
        return Playing(scenario, self.compiled, self.file.handlers, store=store, clock=clock, restarts=restarts)


def load_suite(path: Path) -> Suite:
    """Read a scenario file and compile its definitions.

    Raises:
        ScenarioFileError, DefinitionError: with everything that is wrong.
        OSError: the file can't be read.
    """
    return Suite(read_scenario_file(path))


def _compiled(file: ScenarioFile) -> tuple[Compiled, ...]:
    folder = Path(file.file).parent
    compiled: list[Compiled] = []
    problems: list[Problem] = []
    for number, source in enumerate(file.definitions):
        try:
            compiled.extend(_compile(source, folder, f"{file.file} (definitions[{number}])"))
        except DefinitionError as error:
            problems.extend(error.problems)
        except OSError as error:
            place = Place(file=file.file, path=f"definitions[{number}]")
            problems.append(Problem(code="unreadable_file", message=f"{source}: {error.strerror}", place=place))
    if problems:
        raise DefinitionError(problems)
    return tuple(compiled)


def _compile(source: str | JsonObject, folder: Path, inline_name: str) -> list[Compiled]:
    if isinstance(source, str):
        path = folder / source
        return compile_text(path.read_text(encoding="utf-8"), file=str(path))
    return compile_text(msgspec.json.encode(source), file=inline_name, text_format="json")
