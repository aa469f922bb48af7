"""Command line of the cluster; `scripts/cluster --help` tells what there is."""

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
from pathlib import Path

from ductor.process import until_told_to_stop
from scripts.clustering.chaos import chaos
from scripts.clustering.processes import Cluster, cluster


def main() -> int:
    """Exit code 1 when chaos has found something."""
    parser = argparse.ArgumentParser(prog="scripts/cluster", description=__doc__)
    parser.add_argument("--hosts", type=int, default=3, choices=range(1, 17), metavar="1..16")
    parser.add_argument("--workers", type=int, default=2, choices=range(1, 17), metavar="1..16")
    parser.add_argument("--chaos", type=float, metavar="SECONDS", help="kill processes for so long, then prove")
    parser.add_argument("--seed", type=int, default=1, help="of the chaos")
    parser.add_argument("--folder", type=Path, help="keep files and logs here; a temporary folder otherwise")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="ductor-cluster-"))
    folder.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(filename=folder / "cluster.log")  # what this process itself says
    try:
        return asyncio.run(_run(folder, options))
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


async def _run(folder: Path, options: argparse.Namespace) -> int:
    print(f"starting PostgreSQL, Redis, {options.hosts} hosts and {options.workers} workers in {folder}", flush=True)
    async with cluster(folder, options.hosts, options.workers) as running:
        if options.chaos is None:
            _tell(running)
            await until_told_to_stop()
            print("stopping", flush=True)
            return 0
        report = await chaos(running, options.chaos, options.seed)
    strikes = ", ".join(f"{count} × {victim}" for victim, count in sorted(report.strikes.items()))
    print(f"{report.runs} runs, {report.attempts} attempts, {report.repeated} executed more than once; {strikes}")
    for problem in report.problems:
        print(problem, file=sys.stderr)
    print("SOMETHING IS WRONG" if report.problems else "nothing was lost, nothing was doubled")
    return 1 if report.problems else 0


def _tell(running: Cluster) -> None:
    print("\n".join(f"export {name}='{value}'" for name, value in running.environment.items()))
    print("ductor start parcel --input '{\"n\": 1}' --wait", flush=True)


if __name__ == "__main__":
    sys.exit(main())
