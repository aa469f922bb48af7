"""The judge of what came of it: the ledger on one side, journals, heads, leases and read models on the other.

1. Each acknowledged start has one run, every run an acknowledged start or a parent, and each ended as its kind must.
2. Attempts and the ledger agree: what is accepted was executed, and nothing had an effect that is not accepted.
3. Each acknowledged signal and event was consumed once in the chain that it was sent to.
4. Each child is known to its parent, and has ended as it has.
5. Every journal proves: its chain, its decisions when they are computed again, its head.
6. No lease is held, no fence was given twice, no run is set aside.
7. The read models say what the journals say.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from ductor.actors.client import Client
from ductor.actors.recorded_programs import RunPrograms, load_record
from ductor.actors.verification import verify_run
from ductor.definitions.program import Program
from ductor.journal.events import TERMINAL_RUN_STATUSES
from ductor.journal.recorded import RecordedRun, recorded_run
from ductor.journal.records import Head, PublishedDefinition, RunFilter
from scripts.chaos_run.facts import RunFacts, attempt_problems, facts_of, message_problems
from scripts.chaos_run.kinds import kind_of
from scripts.chaos_run.ledger import Noted

PAGE_RUNS: Final = 1_000
READERS: Final = 4
MAX_PROBLEMS: Final = 200


class Verdict(msgspec.Struct):
    """What was judged, and what is wrong.

    Attributes:
        runs: all, with children and continued ones.
        repeated: executions of attempts beyond the first.
        problems: at most `MAX_PROBLEMS`.
    """

    runs: int = 0
    rows: int = 0
    attempts: int = 0
    repeated: int = 0
    signals: int = 0
    problems: list[str] = msgspec.field(default_factory=list)

    def complain(self, *problems: str) -> None:
        """Something is wrong."""
        self.problems.extend(problems[: MAX_PROBLEMS - len(self.problems)])


async def judge(client: Client, noted: Noted) -> tuple[Verdict, dict[str, RunFacts]]:
    """Look at everything but the read models; also what each journal says, by run."""
    verdict = Verdict()
    facts = {one.head.run_id: one async for one in _proved(client, verdict)}
    judge_facts(facts, noted, verdict)
    held = await client.leases(limit=10)
    verdict.complain(*(f"run {one.run_id} still has the lease {one.key} of {one.node}" for one in held))
    aside = await client.runs_set_aside()
    verdict.complain(*(f"run {one.run_id} is set aside: {one.reason}" for one in aside))
    return verdict, facts


def judge_facts(facts: Mapping[str, RunFacts], noted: Noted, verdict: Verdict) -> None:
    """Hold what the journals say against what the ledger says."""
    verdict.runs = len(facts)
    verdict.rows = sum(one.version for one in facts.values())
    verdict.attempts = sum(one.finished.total() for one in facts.values())
    verdict.repeated = noted.executions.total() - len(noted.executions)
    verdict.signals = sum(len(ids) for ids in noted.messages.values())
    chains = _chains(facts)
    _judge_starts(facts, chains, noted, verdict)
    _judge_attempts(facts, noted, verdict)
    _judge_messages(facts, chains, noted, verdict)
    _judge_children(facts, verdict)
    for key, fences in noted.fences.items():
        if len(set(fences.values())) != len(fences):
            verdict.complain(f"lease {key}: a fence was given to several attempts")


# --- journals ---------------------------------------------------------------------------------------------------------


async def _proved(client: Client, verdict: Verdict) -> AsyncIterator[RunFacts]:
    """Every run, after its journal has been proved."""
    programs: dict[str, Program] = {}
    before: str | None = None
    while heads := await client.runs(RunFilter(limit=PAGE_RUNS, before_run_id=before, shows_continued=True)):
        before = heads[-1].run_id
        room = asyncio.Semaphore(READERS)
        reading = [asyncio.create_task(_recorded(client, head, room)) for head in heads]
        for one in reading:
            run = await one
            found = verify_run(run, _programs(run, programs))
            verdict.complain(*(f"run {run.run_id}: {problem}" for problem in found.problems))
            if found.divergence is not None:
                verdict.complain(f"run {run.run_id}, version {found.divergence.version}: {found.divergence.reason}")
            yield facts_of(run)


async def _recorded(client: Client, head: Head, room: asyncio.Semaphore) -> RecordedRun:
    async with room:
        return await recorded_run(client.store, head.run_id)


def _programs(run: RecordedRun, known: dict[str, Program]) -> RunPrograms:
    def program(record: PublishedDefinition) -> Program:
        if record.manifest_hash not in known:
            known[record.manifest_hash] = load_record(record, None)
        return known[record.manifest_hash]

    return RunPrograms(program(run.definition), {one.manifest_hash: program(one) for one in run.library})


def _chains(facts: Mapping[str, RunFacts]) -> dict[str, list[RunFacts]]:
    """By the first run of each chain, its runs in order."""
    chains: dict[str, list[RunFacts]] = {}
    for one in sorted(facts.values(), key=lambda one: one.head.iteration):
        chains.setdefault(one.head.chain_run_id or one.head.run_id, []).append(one)
    return chains


# --- what was acknowledged --------------------------------------------------------------------------------------------


def _judge_starts(
    facts: Mapping[str, RunFacts], chains: Mapping[str, list[RunFacts]], noted: Noted, verdict: Verdict
) -> None:
    known: set[str] = set()
    for number, run_ids in noted.starts.items():
        missing = [run_id for run_id in run_ids if run_id not in facts]
        if missing:
            verdict.complain(f"start {number} was acknowledged, and there is no run {', '.join(missing)}")
            continue
        firsts = {facts[run_id].head.chain_run_id or run_id for run_id in run_ids}
        if len(firsts) > 1:
            verdict.complain(f"start {number} has several runs: {', '.join(sorted(firsts))}")
        known |= firsts
        for first in firsts:
            _judge_end(number, chains[first], verdict)
    for first, chain in chains.items():
        if first not in known and chain[0].head.parent_run_id is None:
            verdict.complain(f"nobody was told of run {first} of {chain[0].head.definition}")


def _judge_end(number: int, chain: list[RunFacts], verdict: Verdict) -> None:
    kind, last = kind_of(number), chain[-1]
    expected = (kind.definition, kind.status, kind.output(number), kind.compensated)
    found = (last.head.definition, last.head.status, last.output, last.head.compensated)
    if found != expected:
        verdict.complain(f"run {last.head.run_id} of start {number} is {found}, and should be {expected}")
    if any(one.head.status != "continued" for one in chain[:-1]) or len(chain) != max(
        1, len(kind.words) * kind.is_chain
    ):
        verdict.complain(f"the chain of start {number} is {[(one.head.run_id, one.head.status) for one in chain]}")


def _judge_attempts(facts: Mapping[str, RunFacts], noted: Noted, verdict: Verdict) -> None:
    for run_id, one in facts.items():
        if one.head.status not in TERMINAL_RUN_STATUSES:
            verdict.complain(f"run {run_id} of {one.head.definition} has not ended: it is {one.head.status}")
            continue
        verdict.complain(*attempt_problems(one, noted.executions, noted.effects))
    accepted = {token for one in facts.values() for token in one.succeeded}
    verdict.complain(
        *(f"attempt {token} had an effect and is not accepted" for token in noted.effects.keys() - accepted)
    )


def _judge_messages(
    facts: Mapping[str, RunFacts], chains: Mapping[str, list[RunFacts]], noted: Noted, verdict: Verdict
) -> None:
    for first, chain in chains.items():
        for one in chain:
            verdict.complain(*(f"run {one.head.run_id}: {problem}" for problem in message_problems(one)))
        consumed = sum((one.taken for one in chain), Counter[str]())
        verdict.complain(*(f"chain {first}: {id} was consumed {n} times" for id, n in consumed.items() if n > 1))
        sent = {id for one in chain for id in noted.messages.get(one.head.run_id, ())}
        verdict.complain(*(f"chain {first}: {id} was acknowledged, never consumed" for id in sent - consumed.keys()))
    for number in noted.events:
        for run_id in noted.starts[number]:
            if run_id in facts and facts[run_id].taken[f"event:delivered-{number}"] != 1:
                verdict.complain(f"run {run_id}: its event was consumed {dict(facts[run_id].taken)}")


def _judge_children(facts: Mapping[str, RunFacts], verdict: Verdict) -> None:
    started: Counter[str] = sum((one.children for one in facts.values()), Counter())
    for run_id, one in facts.items():
        parent = one.head.parent_run_id
        if parent is None:
            continue
        if parent not in facts or facts[parent].children[run_id] != 1:
            verdict.complain(f"run {run_id} is a child of {parent}, which does not know it")
    verdict.complain(*(f"child {id} was started {n} times" for id, n in started.items() if n > 1))
    verdict.complain(*(f"child {id} was started, and there is no such run" for id in started.keys() - facts.keys()))
