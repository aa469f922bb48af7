"""The conductor of the demonstration: starts a database and a host, kills the host half-way, starts it again, and
compares what the journal says with what the handlers noted.

Half-way is a moment that the journal tells: one of the parallel steps has succeeded, one waits for its retry, one is
in the hands of its handler.
"""

import argparse
import asyncio
import functools
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

import ductor
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.events import TERMINAL_RUN_STATUSES
from ductor.journal.postgres import PostgresStore, migrate
from ductor.journal.replay import verify_chain
from scripts.demonstration.account import StepAccount, account, calls_after
from scripts.demonstration.ledger import Ledger
from scripts.demonstration.leftovers import still_running
from scripts.demonstration.progress import Progress

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PACE_S = 0.6
LOOK_AGAIN_S = 0.1
DEADLINE_S = 50.0
WIDTH = 110
KEPT, BROKEN, USAGE, INTERRUPTED = 0, 1, 2, 130


class DemonstrationError(Exception):
    """The demonstration did not come to where it should."""


class HostProcess:
    """One process of the host."""

    def __init__(self, process: asyncio.subprocess.Process, run_id: str) -> None:
        self._process, self.run_id = process, run_id
        self.pid = process.pid

    async def kill(self) -> None:
        """End it as a power cut would: it gets no chance to do anything."""
        self._process.kill()
        await self._process.wait()

    async def ended(self) -> int:
        """Wait for its end; its exit code."""
        return await self._process.wait()


class Demonstration:
    """One run of the demonstration in `work`, a folder of its own."""

    def __init__(self, console: Console, folder: Path, work: Path, dsn: str, pace_s: float) -> None:
        self._console, self._folder, self._dsn, self._pace_s = console, folder, dsn, pace_s
        self.ledger, self.report = Ledger(work / "ledger.jsonl"), work / "report.md"
        self.host_pids: list[int] = []

    async def perform(self) -> int:
        """Show everything. Raises DemonstrationError."""
        say = functools.partial(self._console.print, soft_wrap=True)
        async with PostgresStore(self._dsn) as store, ductor.Client(store) as client:
            async with self._host() as first:
                say(f"[bold]Host {first.pid}[/] carries out run {first.run_id}.")
                progress = Progress(self._console, client.run(first.run_id))
                await self._follow(progress, until_half_way=True)
                await first.kill()
                say(f"[bold red]Killed host {first.pid} with SIGKILL[/] while it was at [bold]fingerprint[/].")
            async with self._host() as second:
                say(f"[bold]Host {second.pid}[/] starts again, with the same key: it finds run {second.run_id}.")
                if second.run_id != first.run_id:
                    raise DemonstrationError(f"the second host began another run, {second.run_id}")
                await self._follow(progress)
                if await second.ended() != 0:
                    raise DemonstrationError("the second host did not end in order")
            run = client.run(first.run_id)
            view, history = await run.status(), await run.history()
            verify_chain(run.run_id, await store.history(run.run_id))
        entries = self.ledger.read()
        steps = account(run.run_id, history, entries)
        say(f"\nThe run is [bold]{view.status}[/]: {len(history)} rows in its journal, their hashes form one chain.\n")
        self._console.print(_table(steps))
        broken = [f"{step.step}: {words}" for step in steps for words in step.broken]
        broken += [f"{step}: ended before the kill and was called again" for step in calls_after(entries, first.pid)]
        if view.status != "completed":
            broken.append(f"the run is {view.status}: {view.error}")
        for words in broken:
            say(f"[bold red]Promise not kept:[/] {words}")
        if not broken:
            say(
                "Every result was applied exactly once; only the call that the kill cut off was repeated, with its key."
            )
        return BROKEN if broken else KEPT

    @asynccontextmanager
    async def _host(self) -> AsyncIterator[HostProcess]:
        arguments = {
            "--database": self._dsn,
            "--folder": self._folder,
            "--ledger": self.ledger.path,
            "--report": self.report,
            "--pace-s": self._pace_s,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "scripts.demonstration.host",
            *(str(part) for pair in arguments.items() for part in pair),
            cwd=CHECKOUT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self.host_pids.append(process.pid)
        try:
            assert process.stdout is not None
            run_id = (await process.stdout.readline()).decode().strip()
            if not run_id:
                raise DemonstrationError(f"the host ended with exit code {await process.wait()} before it began")
            yield HostProcess(process, run_id)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _follow(self, progress: Progress, *, until_half_way: bool = False) -> None:
        """Show the run's progress until it is half-way, or until it has ended."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    view = await progress.show()
                    if view.status in TERMINAL_RUN_STATUSES or (until_half_way and _is_half_way(view)):
                        break
                    await asyncio.sleep(LOOK_AGAIN_S)
        except TimeoutError:
            raise DemonstrationError(f"the run did not get on within {DEADLINE_S:.0f} s") from None
        if until_half_way and view.status in TERMINAL_RUN_STATUSES:
            raise DemonstrationError(f"the run was {view.status} before it was half-way: {view.error}")


def _is_half_way(view: ductor.RunView) -> bool:
    steps = {step.ref: step for step in view.steps}
    return (
        steps["links"].status == "succeeded"
        and steps["count_lines"].waiting == "retry"
        and steps["fingerprint"].status == "running"
    )


def _table(steps: list[StepAccount]) -> Table:
    table = Table(title="The journal beside the handlers' own ledger", title_justify="left")
    table.add_column("step")
    for column in ("attempts\n(journal)", "results applied\n(journal)", "handler calls\n(ledger)"):
        table.add_column(column, justify="right")
    table.add_column("what happened")
    for step in steps:
        table.add_row(step.step, str(step.attempts), str(step.results), str(step.calls), step.story)
    return table


async def demonstrate(console: Console, folder: Path, work: Path, pace_s: float) -> int:
    """Start the database, show everything, and see that nothing is left running."""
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, work / "postgres")
        server = await stack.enter_async_context(EmbeddedPostgres(work / "postgres", stop_on_parent_death=True))
        console.print(f"PostgreSQL {server.pid} runs, with fsync on. The folder is {folder}.")
        server_pid = server.pid
        await migrate(server.dsn())
        demonstration = Demonstration(console, folder, work, server.dsn(), pace_s)
        status = await demonstration.perform()
    left = await asyncio.to_thread(still_running, (server_pid, *demonstration.host_pids))
    console.print(f"Still running: {left}" if left else "Nothing is left running.")
    console.print(f"The report lies in {demonstration.report}", soft_wrap=True)
    console.print(f"The ledger lies in {demonstration.ledger.path}", soft_wrap=True)
    return BROKEN if left else status


def main(arguments: list[str]) -> int:
    """Run the demonstration; 0 if every promise was kept."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description="A real workflow over a folder, killed half-way with SIGKILL and finished."
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=CHECKOUT, help="what to inspect (default: this checkout)"
    )
    parser.add_argument("--pace", type=float, default=PACE_S, metavar="SECONDS", help="how long handlers take")
    given = parser.parse_args(arguments)
    folder: Path = given.folder.absolute()
    if not folder.is_dir():
        print(f"scripts/demo: {folder} is no folder", file=sys.stderr)
        return USAGE
    work = Path(tempfile.mkdtemp(prefix="ductor-demo-"))
    work.chmod(0o755)  # the database may run as another account
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False)
    console.width = max(console.width, WIDTH)
    try:
        return asyncio.run(demonstrate(console, folder, work, given.pace))
    except DemonstrationError as error:
        console.print(f"[bold red]The demonstration failed:[/] {error}. What there is lies in {work}.")
        return BROKEN
    except KeyboardInterrupt:
        shutil.rmtree(work)
        console.print("\nInterrupted: everything was stopped and removed.")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
