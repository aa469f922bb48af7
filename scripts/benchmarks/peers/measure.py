"""One measurement: a side as a process group of its own, on an empty database, in an empty folder, within a time.

The side's result is one line of JSON. Whatever happens, nothing of its group lives on.
"""

import asyncio
import os
import shutil
import signal
import tempfile
from pathlib import Path

import msgspec

from scripts.benchmarks.load import percentile
from scripts.benchmarks.peers.environments import Installed
from scripts.benchmarks.peers.noise import usage
from scripts.benchmarks.peers.plan import Entry
from scripts.benchmarks.peers.sides.processes import stop

CHECKOUT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 150.0
ERROR_CHARACTERS = 300

_SIDES = "scripts.benchmarks.peers.sides"


class SideResult(msgspec.Struct, frozen=True):
    """What a side prints; see `sides.driver.Result`."""

    seconds: float
    runs: int
    steps: int
    latencies_s: list[float]
    more: dict[str, float]


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement: figures by name with unit, the cores that others used meanwhile; or why there are none."""

    figures: dict[str, float] = {}
    others_cores: float = 0.0
    error: str = ""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a side works: an empty database of the server `postgres_pid`, and the folder of installed systems."""

    database: str
    postgres_pid: int
    cache: Path


async def measure(entry: Entry, installed: Installed, target: Target, timeout_s: float = TIMEOUT_S) -> Sample:
    """Measure one entry of the plan. What goes wrong with the side is told in the sample."""
    folder = Path(tempfile.mkdtemp(prefix="ductor-peers-"))
    before = usage(target.postgres_pid)
    log = folder / "stderr.log"
    try:
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *command(entry, installed, target, folder),
                stdin=asyncio.subprocess.PIPE,  # stays open as long as this process lives
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=CHECKOUT,
                start_new_session=True,
            )
        said = await _said(process, timeout_s)
        if said is None:
            return Sample(error=f"no result within {timeout_s:.0f} s")
        if process.returncode != 0:
            return Sample(error=_last_error(log))
        figures = figures_of(msgspec.json.decode(said.splitlines()[-1], type=SideResult))
        return Sample(figures=figures, others_cores=usage(target.postgres_pid).others_since(before))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def command(entry: Entry, installed: Installed, target: Target, folder: Path) -> list[str]:
    """The command line of a side; `sides.driver.Options` says what is on it."""
    options = {
        "workload": entry.workload,
        "variant": entry.variant,
        "runs": entry.runs,
        "in-flight": entry.in_flight,
        "database": target.database,
        "postgres-pid": target.postgres_pid,
        "folder": folder,
        "cache": target.cache,
    }
    flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    return [installed.python, "-m", f"{_SIDES}.{entry.system}_side", *flags]


def figures_of(result: SideResult) -> dict[str, float]:
    """What the report shows of a side's result."""
    figures = {"seconds": result.seconds, "runs_per_s": result.runs / result.seconds}
    if result.steps:
        figures["steps_per_s"] = result.steps / result.seconds
    if result.latencies_s:
        figures["p50_ms"] = percentile(result.latencies_s, 0.5) * 1e3
        figures["p99_ms"] = percentile(result.latencies_s, 0.99) * 1e3
    in_processes = {name: value for name, value in result.more.items() if name.startswith("bytes_each_in_")}
    figures |= {name: value for name, value in result.more.items() if name not in in_processes}
    in_postgresql = in_processes.pop("bytes_each_in_postgresql", None)
    if in_postgresql is not None:
        figures["kb_each_in_postgresql"] = in_postgresql / 1e3
    if in_processes:
        figures["kb_each"] = sum(in_processes.values()) / 1e3
    return figures


async def _said(process: asyncio.subprocess.Process, timeout_s: float) -> bytes | None:
    """What the side printed until it ended; None if that took too long. Its group is gone afterwards."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(timeout_s):
            said = await process.stdout.read()
            await process.wait()
            return said
    except TimeoutError:
        return None
    finally:
        await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Stop the side; then kill what is left of its group."""
    await stop(process)
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # as it should be


def _last_error(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][-ERROR_CHARACTERS:] if lines else "it ended without a word"
