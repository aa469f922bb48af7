"""Command line of the comparison; `scripts/bench --peers --help` tells what there is."""

import argparse
import asyncio
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import asyncpg
import msgspec
from rich.console import Console

from ductor.journal.embedded import EmbeddedPostgres
from scripts.benchmarks.peers.comparison import (
    Outcome,
    durability_table,
    group_tables,
    losses,
    omissions,
    summary_table,
)
from scripts.benchmarks.peers.environments import Installed, NotInstalledError, install
from scripts.benchmarks.peers.markdown import markdown
from scripts.benchmarks.peers.measure import TIMEOUT_S, Sample, Target, measure
from scripts.benchmarks.peers.plan import ROUNDS, WORKLOADS, plan
from scripts.benchmarks.peers.systems import OURS, SYSTEMS
from scripts.benchmarks.report import Table, print_table
from scripts.benchmarks.server import temporary_server

MINUTES_MAX = 24.0
LAST_START_S = 30.0
"""Nothing is started so shortly before the time is over: it would be cut off."""

DATABASE = "peers"
_SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers")


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, and what was not."""

    environment: dict[str, str]
    tables: list[Table]
    losses: list[str]
    omissions: list[str]


def main(arguments: Sequence[str]) -> int:
    """Compare, and print the report. Returns 1 where a measurement of the engine itself has failed, or when told to
    stop (SIGTERM)."""
    options = read_options(arguments)
    systems = [name for name in SYSTEMS if name in options.only]
    installed, not_installed = _install(systems, options.cache)
    if options.install_only:
        return 1 if not_installed else 0
    entries = plan(frozenset(installed), frozenset(options.workloads), options.rounds, is_quick=options.quick)
    outcomes = [Outcome(entry=entry) for entry in entries]
    try:
        environment = asyncio.run(_measure_all(outcomes, installed, options))
    except asyncio.CancelledError:
        _say("told to stop: nothing is reported, and nothing is left behind")
        return 1
    versions = {name: one.versions for name, one in installed.items()}
    versions[OURS] = (f"ductor-engine {version('ductor-engine')}",)
    report = Report(
        environment=environment,
        tables=[summary_table(outcomes), *group_tables(outcomes), durability_table(systems, versions)],
        losses=losses(outcomes),
        omissions=omissions(outcomes, not_installed, systems),
    )
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode({"report": report, "samples": outcomes})))
    if options.markdown is not None:
        options.markdown.write_text(as_markdown(report), encoding="utf-8")
    _print(report)
    return 1 if any(outcome.entry.system == OURS and not outcome.good for outcome in outcomes) else 0


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; a mistake in it ends the process."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench --peers",
        description="Measure the engine beside other systems on the same work, in turns, on one machine.",
        epilog=f"Takes {MINUTES_MAX:.0f} minutes at most, and some more the first time, for installing.",
    )
    parser.add_argument("--cache", type=Path, required=True, metavar="FOLDER", help="where the systems are installed")
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs, one round: some six minutes")
    parser.add_argument("--only", type=_names_of(SYSTEMS), default=list(SYSTEMS), metavar="SYSTEM,...",
                        help=f"of {', '.join(SYSTEMS)}")  # fmt: skip
    parser.add_argument("--workloads", type=_names_of(WORKLOADS), default=list(WORKLOADS), metavar="WORKLOAD,...",
                        help=f"of {', '.join(WORKLOADS)}")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"at most (default {ROUNDS}; 1 where it is quick)")
    parser.add_argument("--minutes", type=float, default=MINUTES_MAX,
                        help=f"take no longer than this, but for installing (default {MINUTES_MAX:.0f})")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report and every sample")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report's tables")
    parser.add_argument("--install-only", action="store_true", help="only install the systems")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.minutes <= 0:
        parser.error("--rounds and --minutes must be positive")
    if options.quick:
        options.rounds = 1
    options.cache = options.cache.absolute()
    return options


def _names_of(known: Mapping[str, object]) -> Callable[[str], list[str]]:
    """What reads a list of names, separated by commas, all of which must be known."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; there are: {', '.join(known)}")
        return names

    return read


def _install(systems: Sequence[str], cache: Path) -> tuple[dict[str, Installed], dict[str, str]]:
    cache.mkdir(parents=True, exist_ok=True)
    installed: dict[str, Installed] = {}
    not_installed: dict[str, str] = {}
    for name in systems:
        _say(f"installing {name} ...")
        try:
            installed[name] = install(SYSTEMS[name], cache)
        except NotInstalledError as error:
            not_installed[name] = str(error)
            _say(f"{name} is left out: {error}")
    return installed, not_installed


async def _measure_all(
    outcomes: list[Outcome], installed: dict[str, Installed], options: argparse.Namespace
) -> dict[str, str]:
    """Measure in rounds, so that what disturbs the machine disturbs all; what the machine was like."""
    deadline_s = time.monotonic() + options.minutes * 60
    load_before = os.getloadavg()[0]
    measuring = asyncio.current_task()
    assert measuring is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, measuring.cancel)
    async with temporary_server() as server:
        observer: asyncpg.Connection = await asyncpg.connect(server.dsn("postgres"))
        try:
            settings = {name: await observer.fetchval("SELECT current_setting($1)", name) for name in _SETTINGS}
            for number in range(options.rounds):
                for outcome in outcomes:
                    left_s = deadline_s - time.monotonic()
                    if number < outcome.entry.rounds and left_s >= LAST_START_S:
                        await observer.execute("CHECKPOINT")
                        await _measure_one(outcome, server, installed, options.cache, min(TIMEOUT_S, left_s))
        finally:
            await observer.close()
    return {
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load average": f"{load_before:.1f} before, {os.getloadavg()[0]:.1f} at the end",
        "postgresql": ", ".join(f"{name} {value}" for name, value in settings.items()),
    }


async def _measure_one(
    outcome: Outcome, server: EmbeddedPostgres, installed: dict[str, Installed], cache: Path, timeout_s: float
) -> None:
    entry = outcome.entry
    await server.create_database(DATABASE)
    try:
        target = Target(database=server.dsn(DATABASE, tcp=True), postgres_pid=server.pid, cache=cache)
        sample = await measure(entry, installed[entry.system], target, timeout_s)
    finally:
        await server.drop_database(DATABASE)
    outcome.samples = [*outcome.samples, sample]
    _say(f"{entry.workload}, {entry.in_flight} in flight, {entry.label}: {_told(entry.workload, sample)}")


def _told(workload: str, sample: Sample) -> str:
    if sample.error:
        return f"failed: {sample.error}"
    figure = WORKLOADS[workload].figure
    return f"{figure} {sample.figures[figure]:,.1f} (others used {sample.others_cores:.1f} cores)"


def as_markdown(report: Report) -> str:
    """The whole report as Markdown."""
    parts = ["\n".join(f"* {name}: {value}" for name, value in report.environment.items()) + "\n"]
    parts += [markdown(table) for table in report.tables]
    for title, lines in (("Where ductor loses", report.losses), ("What has no figures", report.omissions)):
        parts.append("\n".join([f"### {title}", "", *(f"* {line}" for line in lines or ["nothing"])]) + "\n")
    return "\n".join(parts)


def _print(report: Report) -> None:
    console = Console(width=max(140, Console().width))
    for name, value in report.environment.items():
        console.print(f"{name}: {value}", highlight=False)
    for table in report.tables:
        console.print()
        print_table(console, table)
    for title, lines in (("Where ductor loses", report.losses), ("What has no figures", report.omissions)):
        console.print(f"\n{title}", style="bold")
        for line in lines or ["nothing"]:
            console.print(f"  {line}", highlight=False)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
