"""The oracle of `scripts/chaos` finds nothing where nothing is wrong, and each thing that can be."""

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ductor.actors.host import EngineHost
from ductor.actors.tasks import Task, TaskRegistry
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.memory import MemoryStore
from scripts.chaos_run import handlers
from scripts.chaos_run.facts import RunFacts, attempt_problems, message_problems
from scripts.chaos_run.kinds import DEFINITIONS, KINDS
from scripts.chaos_run.ledger import Ledger, Noted, read_ledger
from scripts.chaos_run.load import Load
from scripts.chaos_run.oracle import Verdict, judge, judge_facts
from scripts.chaos_run.progress import Progress

TASKS: list[Task[..., Any]] = [handlers.add, handlers.flaky, handlers.blocking, handlers.undo, handlers.print_document]
SETTLE_MS = 30_000


class Campaign(msgspec.Struct):
    """One run of each kind at least, all of them ended: what the oracle made of them, and the ledger."""

    verdict: Verdict
    facts: dict[str, RunFacts]
    noted: Noted

    def start_of(self, definition: str) -> str:
        """The id with which the first run of a kind was acknowledged."""
        number = next(number for number, kind in enumerate(KINDS) if kind.definition == definition)
        return next(iter(self.noted.starts[number]))


async def carried_out(file: Path) -> tuple[Verdict, dict[str, RunFacts]]:
    """A campaign without strikes, on a store in memory."""
    store = MemoryStore(SystemClock())
    await store.open()
    host = EngineHost(store, TaskRegistry(TASKS), clock=SystemClock(), ids=SystemIds())
    await host.start_host()
    for compiled in compile_text(DEFINITIONS):
        await host.publish(compiled)
    ledger = Ledger(file)
    load = Load(host, ledger, Progress("nowhere"), random.Random(1))
    await load.work(1_000.0, lambda: load.acknowledged >= len(KINDS))
    ledger.close()
    for run_ids in read_ledger(file).starts.values():
        for run_id in run_ids:
            await host.outcome(run_id, timeout_ms=SETTLE_MS)
    judged = await judge(host, read_ledger(file))
    await host.stop_host()
    await store.close()
    return judged


@pytest.fixture(scope="module")
def campaign_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Verdict, dict[str, RunFacts]]]:
    file = tmp_path_factory.mktemp("chaos") / "ledger"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(handlers.LEDGER_VARIABLE, str(file))
        handlers.ledger.cache_clear()
        yield (file, *asyncio.run(carried_out(file)))
        handlers.ledger().close()
        handlers.ledger.cache_clear()


@pytest.fixture
def campaign(campaign_file: tuple[Path, Verdict, dict[str, RunFacts]]) -> Campaign:
    """With a ledger that may be spoiled."""
    file, verdict, facts = campaign_file
    return Campaign(verdict, facts, read_ledger(file))


def test_nothing_is_wrong_where_nothing_went_wrong(campaign: Campaign):
    verdict, facts = campaign.verdict, campaign.facts
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


def lose_a_child(campaign: Campaign) -> str:
    child = next(run_id for run_id, one in campaign.facts.items() if one.head.parent_run_id is not None)
    campaign.facts = {run_id: one for run_id, one in campaign.facts.items() if run_id != child}
    return f"child {child} was started, and there is no such run"


def orphan_a_child(campaign: Campaign) -> str:
    run_id, child = next((run_id, one) for run_id, one in campaign.facts.items() if one.head.parent_run_id is not None)
    parent = child.head.parent_run_id
    campaign.facts = {id: one for id, one in campaign.facts.items() if id != parent}
    return f"run {run_id} is a child of {parent}, which does not know it"


def leave_a_run_open(campaign: Campaign) -> str:
    run_id = campaign.start_of("timer")
    one = campaign.facts[run_id]
    head = msgspec.structs.replace(one.head, status="running")
    campaign.facts = {**campaign.facts, run_id: msgspec.structs.replace(one, head=head)}
    return f"run {run_id} of timer has not ended: it is running"


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
        lose_a_child,
        orphan_a_child,
        leave_a_run_open,
        give_a_fence_twice,
    ],
)
def test_what_is_wrong_is_found(campaign: Campaign, spoil: Callable[[Campaign], str]):
    expected, verdict = spoil(campaign), Verdict()
    judge_facts(campaign.facts, campaign.noted, verdict)
    assert any(expected in problem for problem in verdict.problems), verdict.problems


def test_what_does_not_fit_within_a_journal_is_found(campaign: Campaign):
    run_id = campaign.start_of("chain")
    one = campaign.facts[run_id]
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
    assert problems(received=one.received + one.received)[0] == "message word-0 was taken up 2 times"
    assert problems(taken=one.taken + one.taken)[0] == "message word-0 was consumed 2 times"


def test_a_ledger_with_a_torn_line_is_refused(tmp_path: Path):
    (tmp_path / "ledger").write_text("did a/b/1\ndid\n", encoding="utf-8")
    with pytest.raises(ValueError, match="a line that nobody writes"):
        read_ledger(tmp_path / "ledger")
