"""What blocks the event loop is named, and for how long; a process that stood still as a whole is told apart."""

import asyncio
import logging
import signal
import subprocess
import sys
import threading

import pytest

import ductor
from ductor.actors.loop_watch import BLOCKED_AFTER_S, PERIOD_S, LoopWatch
from ductor.actors.observing import Observer
from ductor.definitions.build import task, workflow
from ductor.journal.clock import SystemClock
from ductor.journal.memory import MemoryStore

LONG_S = BLOCKED_AFTER_S + 3 * PERIOD_S
WAIT_S = 30.0


class Told(Observer):
    """Keeps what it is told, and when it was told for the first time."""

    def __init__(self) -> None:
        self.blocks: list[tuple[str, float]] = []
        self.is_told = asyncio.Event()

    def loop_blocked(self, task: str, duration_s: float) -> None:
        self.blocks.append((task, duration_s))
        self.is_told.set()


@ductor.task("crunch")
async def crunch() -> str:
    await asyncio.sleep(0)
    threading.Event().wait(LONG_S)  # this is what is to be found
    return "done"


@pytest.fixture
async def store():
    made = MemoryStore(SystemClock())
    await made.open()
    yield made
    await made.close()


async def test_a_handler_that_blocks_the_loop_is_named(store: MemoryStore, caplog: pytest.LogCaptureFixture):
    told = Told()
    definition = workflow("slow", task("a", "crunch"))
    async with ductor.Host(tasks=[crunch], definitions=definition, database=store, observers=[told]) as host:
        run = await host.start("slow")
        assert await run.result(timeout=WAIT_S) == {"a": "done"}
        async with asyncio.timeout(WAIT_S):
            await told.is_told.wait()
    ((name, blocked_s),) = told.blocks
    assert name == "crunch"
    assert BLOCKED_AFTER_S <= blocked_s <= LONG_S + WAIT_S
    meanwhile, after = (one for one in caplog.records if "the event loop" in one.getMessage())
    assert meanwhile.threadName == "loop watch"
    assert f"handler 'crunch' ({run.run_id}/a/1) has blocked" in meanwhile.getMessage()
    assert f" < {__file__}:" in meanwhile.getMessage()
    assert " crunch" in meanwhile.getMessage()
    assert "belongs in a `def` handler" in meanwhile.getMessage()
    assert meanwhile.__dict__["token"] == f"{run.run_id}/a/1"
    assert f"handler 'crunch' ({run.run_id}/a/1) blocked the event loop for" in after.getMessage()
    assert after.__dict__["token"] == f"{run.run_id}/a/1"


async def test_something_else_that_blocks_the_loop_is_told_by_its_place(caplog: pytest.LogCaptureFixture):
    told = Told()
    watch = LoopWatch(lambda task: None, told.loop_blocked)
    watch.start()
    try:
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(threading.Event().wait, LONG_S)
        async with asyncio.timeout(WAIT_S):
            await told.is_told.wait()
    finally:
        watch.stop()
    assert [name for name, _ in told.blocks] == [""]
    assert "a callback has blocked the event loop" in caplog.text
    assert "handler" not in caplog.text, "no handler could mend it"
    assert not any(thread.name == "loop watch" for thread in threading.enumerate())


async def test_work_that_awaits_is_none_of_its_business(caplog: pytest.LogCaptureFixture):
    told = Told()
    watch = LoopWatch(lambda task: None, told.loop_blocked)
    watch.start()
    with caplog.at_level(logging.WARNING):
        await asyncio.to_thread(threading.Event().wait, LONG_S)
    watch.stop()
    stood_still = caplog.text.count("this process stood still")  # a busy machine may do that to it
    assert (len(told.blocks), len(caplog.records)) == (stood_still, stood_still)


STOPPED = """
import asyncio, logging, sys
from ductor.actors.loop_watch import LoopWatch

async def main():
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    is_told = asyncio.Event()
    watch = LoopWatch(lambda task: None, lambda name, blocked_s: is_told.set())
    watch.start()
    print("watching", flush=True)
    await is_told.wait()
    watch.stop()

asyncio.run(main())
"""


def test_a_process_that_was_stopped_blames_nobody():
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(LONG_S)
        process.send_signal(signal.SIGCONT)
        said, _ = process.communicate(timeout=WAIT_S)
    assert said.startswith("this process stood still for")
    assert "blocked" not in said
