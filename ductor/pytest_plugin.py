"""Pytest plugin: collects `*.scenario.yaml`, each scenario a test; and a fixture that kills hosts at their commits.

`--ductor-store postgres` plays them on an embedded PostgreSQL instead of memory. `--ductor-crash` plays each many
times more and kills its host before and after each of its commits.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SUFFIX = ".scenario.yaml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that chooses the store."""
    group = parser.getgroup("ductor")
    group.addoption(
        "--ductor-store",
        choices=("memory", "postgres"),
        default="memory",
        help="where *.scenario.yaml files are played (default: memory)",
    )
    group.addoption("--ductor-crash", action="store_true", help="kill the host of each scenario at each of its commits")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ScenarioFileNode | None":
    """Collect scenario files."""
    if file_path.name.endswith(SUFFIX):
        return ScenarioFileNode.from_parent(parent, path=file_path)
    return None


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the server, if one was started."""
    stores = config.stash.get(_STORES, None)
    if stores is not None and hasattr(stores, "__exit__"):
        stores.__exit__(None, None, None)


@pytest.fixture
def crash_at_every_commit(pytestconfig: pytest.Config) -> Callable[..., None]:
    """Check that a scenario comes out the same wherever its host is killed: `crash_at_every_commit(FILE, name=None)`.

    Without a name all scenarios of the file are played.
    """
    from ductor.testing.scenarios.suite import load_suite  # noqa: PLC0415

    def check(file: str | Path, name: str | None = None) -> None:
        suite = load_suite(Path(file))
        chosen = [one for one in suite.file.scenarios if name in (None, one.name)]
        if not chosen:
            raise ScenarioFailedError(f"{file} has no scenario `{name}`")
        for scenario in chosen:
            crashes = suite.crash_at_every_commit(scenario, _stores(pytestconfig))
            if crashes:
                raise ScenarioFailedError(f"scenario `{scenario.name}`:\n" + "\n".join(crashes))

    return check


class ScenarioFailedError(Exception):
    """A scenario went otherwise than expected; the text says how."""


class ScenarioFileNode(pytest.File):
    """A scenario file; one that is not valid is a collection error that names every mistake."""

    def collect(self) -> Iterator["ScenarioItem"]:
        """A test for each scenario."""
        from ductor.testing.scenarios.suite import load_suite  # noqa: PLC0415 - most test runs have no scenarios

        suite = load_suite(self.path)
        for scenario in suite.file.scenarios:
            yield ScenarioItem.from_parent(self, name=scenario.name, suite=suite, scenario=scenario)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ARG002 - pytest's signature
        """Mistakes of the file without a traceback."""
        from ductor.definitions.errors import DuctorError  # noqa: PLC0415

        return str(excinfo.value) if isinstance(excinfo.value, DuctorError) else super().repr_failure(excinfo)


class ScenarioItem(pytest.Item):
    """One scenario."""

    def __init__(self, *, suite: Any, scenario: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._suite = suite
        self._scenario = scenario

    def runtest(self) -> None:
        """Play and compare."""
        from ductor.testing.scenarios.report import failure_text  # noqa: PLC0415

        result = self._suite.play(self._scenario, _stores(self.config))
        if result.differences:
            raise ScenarioFailedError(failure_text(self._scenario, result.played, result.differences))
        if self.config.getoption("--ductor-crash"):
            crashes = self._suite.crash_at_every_commit(self._scenario, _stores(self.config))
            if crashes:
                raise ScenarioFailedError("\n".join(crashes))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ARG002 - pytest's signature
        """What differed, and the run's history."""
        return str(excinfo.value) if isinstance(excinfo.value, ScenarioFailedError) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where it stands."""
        return self.path, self._scenario.place.line - 1, f"scenario: {self.name}"


_STORES: pytest.StashKey[Any] = pytest.StashKey()


def _stores(config: pytest.Config) -> Any:
    from ductor.testing.scenarios.suite import MemoryStores, PostgresStores  # noqa: PLC0415

    if _STORES not in config.stash:
        is_memory = config.getoption("--ductor-store") == "memory"
        config.stash[_STORES] = MemoryStores() if is_memory else PostgresStores()
    return config.stash[_STORES]
