"""Command line of the benchmarks; `scripts/bench --help` tells what there is."""

import argparse
import asyncio
import gc
import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version

import msgspec
from rich.console import Console

from ductor.process import fastest_loop, tune_garbage_collector
from scripts.benchmarks.actors import measure_actors
from scripts.benchmarks.attempts import measure_attempts
from scripts.benchmarks.cost_centres import measure_cost_centres
from scripts.benchmarks.fan_out import measure_fan_out
from scripts.benchmarks.folding import measure_fold
from scripts.benchmarks.hosts import measure_hosts
from scripts.benchmarks.journal_size import measure_journal_size
from scripts.benchmarks.latency import measure_latency
from scripts.benchmarks.leases import measure_leases
from scripts.benchmarks.loading import measure_loading
from scripts.benchmarks.projecting import measure_projections
from scripts.benchmarks.queues import measure_queues
from scripts.benchmarks.remote_work import measure_remote_work
from scripts.benchmarks.replaying import measure_replay
from scripts.benchmarks.report import Table, print_table
from scripts.benchmarks.server import BenchmarkServer, benchmark_server
from scripts.benchmarks.throughput import measure_throughput
from scripts.benchmarks.ticks import measure_ticks
from scripts.benchmarks.waiting import measure_parked, measure_signals, measure_timers

Measure = Callable[[BenchmarkServer, bool], Awaitable[list[Table]]]


async def _throughput(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return await measure_throughput(server, is_quick=is_quick)


async def _latency(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return [await measure_latency(server, is_quick=is_quick)]


async def _fold(_server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return [measure_fold(is_quick=is_quick)]


async def _replay(_server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return [measure_replay(is_quick=is_quick)]


async def _tick(_server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return [measure_ticks(is_quick=is_quick)]


async def _actors(_server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return await measure_actors(is_quick=is_quick)


async def _attempts(_server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return [await measure_attempts(is_quick=is_quick)]


async def _journal_size(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return [await measure_journal_size(server, is_quick=is_quick)]


async def _parked(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return [await measure_parked(server, is_quick=is_quick)]


async def _timers(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return [await measure_timers(server, is_quick=is_quick)]


async def _signals(server: BenchmarkServer, _is_quick: bool) -> list[Table]:
    return [await measure_signals(server)]


async def _fan_out(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return [await measure_fan_out(server, is_quick=is_quick)]


async def _cost_centres(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return [await measure_cost_centres(server, is_quick=is_quick)]


async def _projections(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return await measure_projections(server, is_quick=is_quick)


async def _leases(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return await measure_leases(server, is_quick=is_quick)


async def _queues(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return [await measure_queues(server, is_quick=is_quick)]


async def _loading(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return await measure_loading(server, is_quick=is_quick)


async def _hosts(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return await measure_hosts(server, is_quick=is_quick)


async def _workers(server: BenchmarkServer, is_quick: bool) -> list[Table]:
    return [await measure_remote_work(server, is_quick=is_quick)]


MEASUREMENTS: dict[str, Measure] = {
    "throughput": _throughput,
    "cost-centres": _cost_centres,
    "latency": _latency,
    "fold": _fold,
    "replay": _replay,
    "tick": _tick,
    "actors": _actors,
    "attempts": _attempts,
    "journal-size": _journal_size,
    "parked": _parked,
    "timers": _timers,
    "signals": _signals,
    "queues": _queues,
    "projections": _projections,
    "fan-out": _fan_out,
    "leases": _leases,
    "workers": _workers,
    "hosts": _hosts,
    "loading": _loading,
}


def main(arguments: list[str]) -> int:
    """Measure what is asked for and print it."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure the engine beside the bare commit loop, in one run on one embedded PostgreSQL.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(MEASUREMENTS)} (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller journals: about a minute")
    parser.add_argument("--no-uvloop", action="store_true", help="use asyncio's own loop though uvloop is installed")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"unknown measurement {', '.join(unknown)}; there are: {', '.join(MEASUREMENTS)}")
    loop_factory = None if options.no_uvloop else fastest_loop()
    loop_name = "asyncio" if loop_factory is None else f"uvloop {version('uvloop')}"
    tune_garbage_collector()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        environment, tables = runner.run(_measure(options.names or list(MEASUREMENTS), loop_name, options.quick))
    if options.json:
        report = {"environment": environment, "measurements": [table.as_json() for table in tables]}
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
        return 0
    console = Console(width=max(100, Console().width))
    for name, value in environment.items():
        console.print(f"{name.replace('_', ' ')}: {value}", highlight=False)
    for table in tables:
        console.print()
        print_table(console, table)
    return 0


async def _measure(names: list[str], loop_name: str, is_quick: bool) -> tuple[dict[str, str], list[Table]]:
    tables: list[Table] = []
    async with benchmark_server() as server:
        settings = await server.settings()
        for name in names:
            began = time.monotonic()
            print(f"measuring {name} ...", end=" ", file=sys.stderr, flush=True)
            tables.extend(await MEASUREMENTS[name](server, is_quick))
            print(f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    environment = {
        "ductor": _version("ductor-engine"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "loop": loop_name,
        "garbage_collector": f"as `ductor host` sets it: frozen at the start, thresholds {gc.get_threshold()}",
        "processors": str(os.cpu_count()),
        "load_average": ", ".join(f"{value:.2f}" for value in os.getloadavg()),
        "postgresql": settings.pop("server_version"),
        **settings,
    }
    return environment, tables


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
