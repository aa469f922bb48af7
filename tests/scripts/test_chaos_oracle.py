"""The oracle of `scripts/chaos` finds nothing where nothing is wrong, and each thing that can be."""

import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from ductor.actors.client import Client
from ductor.actors.host import EngineHost
from ductor.actors.tasks import TaskRegistry
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.memory import MemoryStore
from scripts.chaos_run import handlers
from scripts.chaos_run.facts import attempt_problems, message_problems
from scripts.chaos_run.kinds import DEFINITIONS, KINDS
from scripts.chaos_run.ledger import Ledger, Noted, read_ledger
from scripts.chaos_run.load import Load
from scripts.chaos_run.oracle import judge
from scripts.chaos_run.progress import Progress

TASKS = [handlers.add, handlers.flaky, handlers.blocking, handlers.undo, handlers.print_document]
SETTLE_MS = 30_000


class Campaign(msgspec.Struct):
    """One run of each kind at least, all of them ended, and the ledger of it."""

    client: Client
    noted: Noted

    def start_of(self, definition: str) -> str:
        """The id with which the first run of a kind was acknowledged."""
        number = next(number for number, kind in enumerate(KINDS) if kind.definition == definition)
        return next(iter(self.noted.starts[number]))


@pytest_asyncio.fixture
async def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Campaign]:
    file = tmp_path / "ledger"
    monkeypatch.setenv(handlers.LEDGER_VARIABLE, str(file))
    handlers.ledger.cache_clear()
    store = MemoryStore(SystemClock())
    await store.open()
    host = EngineHost(store, TaskRegistry(TASKS), clock=SystemClock(), ids=SystemIds())
    await host.start_host()
    try:
        for compiled in compile_text(DEFINITIONS):
            await host.publish(compiled)
        ledger = Ledger(file)
        load = Load(host, ledger, Progress("nowhere"), random.Random(1))
        await load.work(1_000.0, lambda: load.acknowledged >= len(KINDS))
        ledger.close()
        noted = read_ledger(file)
        for run_ids in noted.starts.values():
            for run_id in run_ids:
                await host.outcome(run_id, timeout_ms=SETTLE_MS)
        yield Campaign(host, read_ledger(file))
    finally:
        await host.stop_host()
        await store.close()
        handlers.ledger().close()
        handlers.ledger.cache_clear()


async def test_nothing_is_wrong_where_nothing_went_wrong(campaign: Campaign):
    verdict, facts = await judge(campaign.client, campaign.noted)
    assert verdict.problems == []
    assert verdict.runs == len(facts) > len(KINDS)
    assert verdict.attempts == sum(campaign.noted.executions.values())
    assert verdict.repeated == 0
    assert {one.head.definition.split("/")[0] for one in facts.values()} >= {kind.definition for kind in KINDS}


def lose_a_run(campaign: Campaign) -> str:
    campaign.noted.starts[10_000] = {"01a22a74-7c6b-74ad-b1df-02c1339f6a39"}
    return "start 10000 was acknowledged, and there is no run"


def start_twice(campaign: Campaign) -> str:
    campaign.noted.starts[0].add(campaign.start_of("timer"))
    return "start 0 has several runs"


def start_unasked(campaign: Campaign) -> str:
    run_id = campaign.start_of("timer")
    del campaign.noted.starts[next(number for number, ids in campaign.noted.starts.items() if run_id in ids)]
    return f"nobody was told of run {run_id} of timer"


def end_otherwise(campaign: Campaign) -> str:
    starts = campaign.noted.starts
    starts[0], starts[1] = starts[1], starts[0]
    return "of start 1 is ('sequence', 'completed'"


def lose_an_execution(campaign: Campaign) -> str:
    token = next(iter(campaign.noted.executions))
    del campaign.noted.executions[token]
    return f"attempt {token} finished and nobody executed it"


def lose_an_effect(campaign: Campaign) -> str:
    token = next(iter(campaign.noted.effects))
    del campaign.noted.effects[token]
    return f"attempt {token} succeeded without an effect"


def have_an_effect_too_many(campaign: Campaign) -> str:
    token = campaign.start_of("timer") + "/work/2"
    campaign.noted.effects[token] += 1
    return f"attempt {token} had an effect and is not accepted"


def lose_a_signal(campaign: Campaign) -> str:
    campaign.noted.messages.setdefault(campaign.start_of("chain"), set()).add("word-9")
    return "word-9 was acknowledged, never consumed"


def lose_an_event(campaign: Campaign) -> str:
    campaign.noted.events.add(0)
    return "its event was consumed {}"


def give_a_fence_twice(campaign: Campaign) -> str:
    campaign.noted.fences["printer-9"] = {"one": 7, "two": 7}
    return "lease printer-9: a fence was given to several attempts"


@pytest.mark.parametrize(
    "spoil",
    [
        lose_a_run,
        start_twice,
        start_unasked,
        end_otherwise,
        lose_an_execution,
        lose_an_effect,
        have_an_effect_too_many,
        lose_a_signal,
        lose_an_event,
        give_a_fence_twice,
    ],
)
async def test_what_is_wrong_is_found(campaign: Campaign, spoil: Callable[[Campaign], str]):
    expected = spoil(campaign)
    verdict, _ = await judge(campaign.client, campaign.noted)
    assert any(expected in problem for problem in verdict.problems), verdict.problems


async def test_what_does_not_fit_within_a_journal_is_found(campaign: Campaign):
    _, facts = await judge(campaign.client, campaign.noted)
    run_id = campaign.start_of("chain")
    one = facts[run_id]
    token = f"{run_id}/work/1"

    def problems(**changes: object) -> list[str]:
        changed = msgspec.structs.replace(one, **changes)
        return [
            *attempt_problems(changed, campaign.noted.executions, campaign.noted.effects),
            *message_problems(changed),
        ]

    assert problems() == []
    assert problems(dispatched=one.dispatched + one.dispatched)[0] == f"attempt {token} was dispatched 2 times"
    assert problems(finished=one.finished + one.finished)[0] == f"attempt {token} finished 2 times"
    assert problems(dispatched=type(one.dispatched)())[0] == f"attempt {token} finished and was never dispatched"
    assert problems(finished=type(one.finished)())[0] == f"attempt {token} was dispatched and never finished"
    assert problems(received=one.received + one.received) == ["message word-0 was taken up 2 times"]
    assert problems(taken=one.taken + one.taken) == ["message word-0 was consumed 2 times"]


def test_a_ledger_with_a_torn_line_is_refused(tmp_path: Path):
    (tmp_path / "ledger").write_text("did a/b/1\ndid\n", encoding="utf-8")
    with pytest.raises(ValueError, match="a line that nobody writes"):
        read_ledger(tmp_path / "ledger")
