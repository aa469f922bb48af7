"""Command line of the cluster; `scripts/cluster --help` tells what there is."""

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ductor.process import until_told_to_stop
from scripts.clustering.handlers import DEFINITION
from scripts.clustering.members import Member
from scripts.clustering.processes import running, servers

WORK = ("worker", "--tasks", "scripts.clustering.handlers", "--visibility", "5s")


def main() -> int:
    """Run until told to stop."""
    parser = argparse.ArgumentParser(prog="scripts/cluster", description=__doc__)
    parser.add_argument("--hosts", type=int, default=3, choices=range(1, 17), metavar="1..16")
    parser.add_argument("--workers", type=int, default=2, choices=range(1, 17), metavar="1..16")
    parser.add_argument("--folder", type=Path, help="keep files and logs here; a temporary folder otherwise")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="ductor-cluster-"))
    folder.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(filename=folder / "cluster.log")  # what this process itself says
    try:
        asyncio.run(_run(folder, options.hosts, options.workers))
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


async def _run(folder: Path, hosts: int, workers: int) -> None:
    print(f"starting PostgreSQL, Redis, {hosts} hosts and {workers} workers in {folder}", flush=True)
    async with servers(folder, DEFINITION) as (postgres, redis):
        environment = {"DUCTOR_DATABASE": postgres.dsn(), "DUCTOR_REDIS_URL": redis.url}
        members = [
            *(_member(f"host-{number + 1}", ("host",), environment, folder) for number in range(hosts)),
            *(_member(f"worker-{number + 1}", WORK, environment, folder) for number in range(workers)),
        ]
        async with running(members):
            print("\n".join(f"export {name}='{value}'" for name, value in environment.items()))
            print("ductor start parcel --input '{\"n\": 1}' --wait", flush=True)
            await until_told_to_stop()
            print("stopping", flush=True)


def _member(name: str, arguments: tuple[str, ...], environment: Mapping[str, str], folder: Path) -> Member:
    return Member(name, arguments, environment, folder / f"{name}.log")


if __name__ == "__main__":
    sys.exit(main())
