"""Pytest plugin: collects `*.scenario.yaml`, each scenario a test.

`--ductor-store postgres` plays them on an embedded PostgreSQL instead of memory.
"""

from collections.abc import Iterator
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
