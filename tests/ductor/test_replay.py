"""Replays from Python: states, differences, attempts, proofs, what-ifs and calls of handlers."""

import asyncio
from pathlib import Path

import msgspec
import pytest

import ductor
from ductor.actors.attempt_history import all_attempts
from ductor.actors.tasks import task
from ductor.actors.verify import RowVerifier
from ductor.definition_files import SourceDefinition
from ductor.definitions.compile import compile_text
from ductor.errors import DefinitionNotInSourceError
from ductor.history_verifier import HistoryVerifier
from ductor.journal.codec import encode_state
from ductor.journal.errors import ExportFormatError, MissingVersionError, RunNotExportedError
from ductor.journal.ids import SystemIds
from ductor.journal.recorded import RecordedRun
from ductor.journal.replay import state_at
from ductor.replay import Replay
from ductor.testing import Engine, virtual_time
from tests.ductor.recorded_runs import document, engine, export

REPEATED = """\
ductor: 1
name: repeated
steps:
  - ref: work
    type: task
    task: work
    input: {rounds: "${trigger.rounds}"}
    retry: {max_attempts: 2, initial: 1s, jitter: 0}
    repeat: {until: output.round >= trigger.rounds, max: 5000}
"""


@task("work")
async def work(rounds: int, context: ductor.TaskContext) -> dict[str, int]:
    if context.attempt == 1 and context.iteration == 1 and not context.is_replay:
        raise ConnectionError("away")
    return {"round": context.iteration + 1, "of": rounds}


async def repeated(rounds: int) -> RecordedRun:
    async with engine(tasks=[work], definitions=[document(REPEATED)]) as host:
        run = await host.start("repeated", {"rounds": rounds})
        await run.result()
        return (await host.replay(run.run_id)).run


@virtual_time
async def test_states_at_any_row_are_those_of_folding():
    replay = Replay(await repeated(2_200))
    assert replay.version > 2_200
    for version in (0, 1, 999, 1_000, 1_001, 2_150, 1_500, 3, replay.version):
        assert encode_state(replay.at(version)) == encode_state(state_at(replay.run_id, replay.run.rows, version))
    versions = [state.version for state in replay.states()]
    assert versions == list(range(1, replay.version + 1))
    for version in (-1, replay.version + 1):
        with pytest.raises(MissingVersionError):
            replay.at(version)
    with pytest.raises(MissingVersionError):
        replay.events(0)
    assert replay.verify().holds


@virtual_time
async def test_what_is_done_to_a_state_does_not_come_back():
    replay = Replay(await repeated(3))
    replay.at(2).nodes.clear()
    assert replay.at(2).nodes


@virtual_time
async def test_attempts_of_all_rounds():
    replay = Replay(await repeated(3))
    attempts = replay.attempts("work")
    told = [(one.generation, one.iteration, one.attempt, one.outcome, one.input) for one in attempts]
    assert told == [
        (1, 0, 1, "succeeded", {"rounds": 3}),
        (2, 1, 1, "failed", {"rounds": 3}),
        (3, 1, 2, "succeeded", {"rounds": 3}),
        (4, 2, 1, "succeeded", {"rounds": 3}),
    ]
    assert attempts[1].error is not None
    assert attempts[1].error.type == "ConnectionError"
    assert [one.finished_version for one in attempts[:-1]] <= [one.dispatched_version for one in attempts[1:]]
    assert all_attempts(replay.run) == attempts


@virtual_time
async def test_a_chosen_attempt_is_called_again():
    replay = Replay(await repeated(3))
    again = await replay.call("work", [work], generation=2)
    assert (again.recorded.outcome, again.output, again.is_same) == ("failed", {"round": 2, "of": 3}, False)
    assert (await replay.call("work", [work])).is_same


@virtual_time
async def test_a_run_under_way_is_replayed_as_it_is_now():
    async with engine() as host:
        run = await host.start("order", {"sku": "dear"})
        await asyncio.sleep(60)
        replay = await host.replay(run.run_id)
        assert (replay.at().status, replay.view().status) == ("waiting", "waiting")
        assert replay.what_if(document()).verdict == "safe"
        await run.approve("approve", by="ann")
        await run.result()
        assert replay.version < (await host.replay(run.run_id)).version
        with pytest.raises(RunNotExportedError, match="there is no such run"):
            await host.replay(SystemIds().run_id())


@virtual_time
async def test_the_definition_with_the_name_of_the_run_is_tried():
    async with engine() as host:
        run = await host.start("order", {"sku": "cheap"})
        await run.result()
        replay = await host.replay(run.run_id)
    other = document(document().text.replace("name: order", "name: other"))
    assert replay.what_if(document(REPEATED), document()).verdict == "safe"
    assert replay.what_if(other).verdict == "safe"
    with pytest.raises(DefinitionNotInSourceError, match="repeated, other"):
        replay.what_if(document(REPEATED), other)


@virtual_time
async def test_a_file_is_replayed_without_a_database(tmp_path: Path):
    async with engine() as host:
        for sku in ("cheap", "large"):
            await (await host.start("order", {"sku": sku})).result()
        first, second = [run.run_id for run in await host.runs()]
        (tmp_path / "runs.jsonl").write_bytes(await export(host.engine.store))
    assert ductor.replay_file(tmp_path / "runs.jsonl", second).verify().holds
    assert ductor.replay_file(tmp_path / "runs.jsonl", first).run_id == first
    with pytest.raises(ExportFormatError, match="holds several runs"):
        ductor.replay_file(tmp_path / "runs.jsonl")
    with pytest.raises(ExportFormatError, match="can't be read"):
        ductor.replay_file(tmp_path / "nothing.jsonl")


@virtual_time
async def test_a_proof_stops_at_the_first_row_that_differs_and_a_thorough_one_goes_on():
    run = await repeated(5)
    programs = Replay(run).programs
    rows = list(run.rows)
    rows[2] = msgspec.structs.replace(rows[2], at_us=rows[2].at_us + 1)
    fast, thorough = (RowVerifier(programs, run.run_id, {}, is_thorough=flag) for flag in (False, True))
    found = [(verifier.verify(row)) for verifier in (fast, thorough) for row in rows[:3]]
    assert [one.rule if one else None for one in found] == [None, None, "chain"] * 2
    assert thorough.verify(rows[3]) is None, "each row is judged by itself"


@virtual_time
async def test_a_value_that_is_missing_is_told():
    async with engine() as host:
        run = await host.start("order", {"sku": "large"})
        await run.result()
        recorded = (await host.replay(run.run_id)).run
    assert len(recorded.payloads) == 1
    without = msgspec.structs.replace(recorded, payloads={})
    assert Replay(without).verify().divergence is None or not Replay(without).verify().holds
    changed = msgspec.structs.replace(recorded, payloads=dict.fromkeys(recorded.payloads, b"1"))
    assert "does not have this hash" in Replay(changed).verify().problems[0]


@virtual_time
async def test_histories_of_definitions_that_can_not_be_loaded_are_findings():
    run = await repeated(2)
    verifier = HistoryVerifier()
    assert verifier.check(run).holds
    text = run.definition.manifest.replace(b"output.round >= trigger.rounds", b"mystery(output.round)")
    broken = msgspec.structs.replace(run.definition, manifest=text, manifest_hash="0" * 64)
    found = verifier.check(msgspec.structs.replace(run, definition=broken))
    assert not found.holds
    assert "mystery" in found.reasons[0]


BODIES = """\
ductor: 1
name: outer
steps:
  - ref: inner
    type: subworkflow
    do: {steps: [{ref: work, type: task, task: work, input: {rounds: 7}}]}
---
ductor: 1
name: another
steps: [{ref: wait, type: wait, signal: never, timeout: 1h}]
"""


@virtual_time
async def test_a_run_of_an_inline_body_is_checked_under_the_definition_around_it():
    sources = [SourceDefinition(one, "", BODIES) for one in compile_text(BODIES)]
    async with Engine(definitions=sources, mocks={"work": [1]}) as host:
        run = await host.start("outer")
        await run.result()
        (child,) = (await run.tree()).children
        replay = await host.replay(child.head.run_id)
        waiting = await host.start("another")
        await asyncio.sleep(60)
        other = await host.replay(waiting.run_id)
    assert replay.run.head.definition == "outer/inner"
    same = HistoryVerifier(sources)
    assert same.covers(replay.run)
    assert same.check(replay.run).holds
    text = BODIES.replace("rounds: 7", "rounds: 8").replace("timeout: 1h", "timeout: 2h")
    changed = [SourceDefinition(one, "", text) for one in compile_text(text)]
    found = HistoryVerifier(changed).check(replay.run)
    assert (found.definition, found.holds, found.verdict) == ("outer/inner", False, "needs mapping")
    assert "step work: its recorded result is for another input" in found.reasons
    assert replay.what_if(*changed).verdict == "needs mapping"
    assert not HistoryVerifier(sources[:1]).covers(other.run)
    settled = compile_text(BODIES.replace("type: wait, signal: never, timeout: 1h", "type: transform, value: 1"))
    reasons = other.what_if(*(SourceDefinition(one, "", BODIES) for one in settled)).reasons
    assert "step wait: it is a wait that is waiting, and would be a transform" in [one.text for one in reasons]
