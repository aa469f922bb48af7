"""`ductor test`."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ductor.cli.options import OutputOptions

if TYPE_CHECKING:
    from ductor.testing.scenarios.suite import Result, Stores, Suite

SUFFIX = ".scenario.yaml"


def test(
    paths: tuple[Path, ...] = (),
    /,
    *,
    store: Literal["memory", "postgres"] = "memory",
    only: str | None = None,
    crash: Annotated[bool, Parameter(negative="")] = False,
    output: OutputOptions = OutputOptions(),
) -> int:
    """Play scenario files on the real engine in virtual time. Exit code 1 when anything differs.

    Parameters
    ----------
    paths
        Scenario files (`*.scenario.yaml`), or folders of them; the current folder without any.
    store
        Where runs are kept meanwhile: in memory, or in an embedded PostgreSQL of their own.
    only
        Only scenarios whose name contains this.
    crash
        Play each scenario many times more, killing its host before and after each of its commits.
    """
    from ductor.cli.arguments import ArgumentError
    from ductor.cli.output import print_json
    from ductor.testing.scenarios.suite import MemoryStores, PostgresStores

    suites = _load(paths)
    results: list[Result] = []
    failed = 0
    with ExitStack() as stack:
        stores: Stores = MemoryStores() if store == "memory" else stack.enter_context(PostgresStores())
        for suite in suites:
            for scenario in suite.file.scenarios:
                if only is not None and only not in scenario.name:
                    continue
                result = suite.play(scenario, stores)
                crashes = suite.crash_at_every_commit(scenario, stores) if crash and not result.differences else []
                results.append(result)
                failed += bool(result.differences or crashes)
                if output.output == "table":
                    _print(result, crashes)
                else:
                    print_json(_as_json(result, crashes))
    if not results:
        raise ArgumentError("--only", f"no scenario has {only!r} in its name")
    if output.output == "table":
        print(f"{len(results)} scenario{'s' if len(results) != 1 else ''}, {failed} failed")
    return 1 if failed else 0


def _load(paths: Sequence[Path]) -> "list[Suite]":
    """The files' suites; the problems of all files at once."""
    from ductor.cli.arguments import ArgumentError
    from ductor.definitions.errors import DefinitionError
    from ductor.testing.scenarios.model import ScenarioFileError
    from ductor.testing.scenarios.suite import Suite, load_suite

    suites: list[Suite] = []
    failures: list[DefinitionError | ScenarioFileError] = []
    for file in _files(paths or (Path(),)):
        try:
            suites.append(load_suite(file))
        except (DefinitionError, ScenarioFileError) as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ArgumentError("scenario files", "\n".join(str(failure) for failure in failures))
    return suites


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    from ductor.cli.arguments import ArgumentError

    for path in paths:
        if not path.exists():
            raise ArgumentError(str(path), "there is no such file or folder")
        found = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not found:
            raise ArgumentError(str(path), f"the folder holds no scenario files (*{SUFFIX})")
        yield from found


def _print(result: "Result", crashes: Sequence[str]) -> None:
    from ductor.testing.scenarios.report import failure_text

    scenario = result.scenario
    if result.differences:
        print(f"✘ {failure_text(scenario, result.played, result.differences)}", flush=True)
    elif crashes:
        lines = "".join(f"\n  {line}" for line in crashes)
        print(f"✘ {scenario.place.file}:{scenario.place.line}: scenario `{scenario.name}`{lines}", flush=True)
    else:
        print(f"✔ {scenario.name}", flush=True)


def _as_json(result: "Result", crashes: Sequence[str]) -> dict[str, object]:
    scenario = result.scenario
    return {
        "scenario": scenario.name,
        "file": scenario.place.file,
        "line": scenario.place.line,
        "passed": not result.differences and not crashes,
        "differences": [str(difference) for difference in result.differences],
        "crash_differences": list(crashes),
        "history": result.played.history if result.differences else [],
    }
