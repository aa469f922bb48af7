"""Command line of chaos; `scripts/chaos --help` tells what there is."""

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from ductor.process import STOP_SIGNALS
from scripts.chaos_run.campaign import Report, Wanted, campaign
from scripts.chaos_run.plan import STRIKES, Strike
from scripts.chaos_run.volume import NoVolumeError, Volume, mounted_volume

VOLUME_MB: Final = 8_192


def main(arguments: list[str]) -> int:
    """Exit code 1 when something is wrong or was not reached."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [kind for kind in options.strikes if kind not in STRIKES]
    if unknown:
        parser.error(f"--strikes: unknown kind {', '.join(unknown)}; there are: {' '.join(STRIKES)}")
    counts: dict[Strike, int] = {
        kind: getattr(options, f"{kind.replace('-', '_')}s") for kind in STRIKES if kind in options.strikes
    }
    folder = options.folder or Path(tempfile.mkdtemp(prefix="ductor-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    # what this process itself says: strikes, and what its proxies and its store meet
    logging.basicConfig(
        filename=folder / "chaos.log", level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    wanted = Wanted(
        seed=options.seed,
        runs=options.runs,
        seconds=options.seconds,
        within_s=options.within or 2 * options.seconds,
        hosts=options.hosts,
        workers=options.workers,
        counts=counts,
    )
    try:
        report = _run(wanted, folder)
    except asyncio.CancelledError:
        print("stopped before its end", file=sys.stderr)
        return 1
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    return _tell(report)


def _run(wanted: Wanted, folder: Path) -> Report:
    print(f"{wanted.hosts} hosts, {wanted.workers} workers, seed {wanted.seed}, in {folder}", flush=True)
    with ExitStack() as stack:
        volume: Volume | None = None
        if wanted.counts.get("full-disk"):
            try:
                volume = stack.enter_context(mounted_volume(folder, VOLUME_MB))
            except NoVolumeError as error:
                print(f"the disk is never full: {error}", flush=True)
                counts = {kind: count for kind, count in wanted.counts.items() if kind != "full-disk"}
                wanted = msgspec.structs.replace(wanted, counts=counts)
        report = asyncio.run(_until_stopped(campaign(wanted, folder, volume)))
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    return report


async def _until_stopped(work: Coroutine[None, None, Report]) -> Report:
    """Whoever stops the campaign finds nothing left of it: a signal cancels it."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    return await work


def _tell(report: Report) -> int:
    verdict = report.verdict
    print(f"strikes: {', '.join(f'{count} × {kind}' for kind, count in report.strikes.items())}")
    print(
        f"{report.acknowledged} starts and {verdict.signals} signals were acknowledged in {report.seconds:.0f} s; "
        f"{verdict.runs} runs, {verdict.rows} journal rows, {verdict.attempts} attempts, "
        f"{verdict.repeated} executions repeated; longest time in which no run ended: {report.longest_pause_s:.1f} s"
    )
    for problem in verdict.problems:
        print(problem, file=sys.stderr)
    for one in report.missing:
        print(f"not reached in time: {one}", file=sys.stderr)
    if report.is_good:
        print("nothing was lost, nothing was doubled")
        return 0
    print("SOMETHING IS WRONG" if verdict.problems else "NOT ALL WAS REACHED")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/chaos",
        description="Strike real processes under load, and prove that nothing was lost or doubled.",
    )
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same strikes (default 1)")
    parser.add_argument("--runs", type=int, default=200, help="so many starts at least (default 200)")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="starts and strikes are spread over so long (default 30)"
    )
    parser.add_argument("--within", type=float, help="it is over then, whatever was reached (default: twice --seconds)")
    parser.add_argument("--hosts", type=int, default=3, choices=range(1, 17), metavar="1..16")
    parser.add_argument("--workers", type=int, default=2, choices=range(1, 17), metavar="1..16")
    parser.add_argument(
        "--strikes", nargs="+", default=list(STRIKES), metavar="KIND", help=f"only these of {' '.join(STRIKES)}"
    )
    for kind in STRIKES:
        parser.add_argument(f"--{kind}s", type=int, default=1, metavar="N", help="so many (default 1)")
    parser.add_argument("--folder", type=Path, help="keep files, logs and report.json here; a temporary one otherwise")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
