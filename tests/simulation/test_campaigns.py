"""A bounded part of what `scripts/simulate` does: campaigns, that they repeat, and that planted bugs are found."""

import msgspec
import pytest

from scripts.simulation.__main__ import find_planted, main
from scripts.simulation.campaign import Outcome, run_campaign
from scripts.simulation.plan import Plan
from scripts.simulation.planning import plan_of
from scripts.simulation.planted import PLANTED
from scripts.simulation.report import Totals
from scripts.simulation.shrink import plan_size, shrunk

SEEDS = range(45)
PLANTED_HERE = (
    "end_unchecked",
    "token_of_redelivery",
    "version_unchecked",
    "orphan_on_cancel",
    "compaction_forgets_signals",
    "needed_row_removed",
    "needed_value_removed",
)


def test_the_engine_keeps_its_guarantees_under_every_kind_of_fault() -> None:
    totals = Totals()
    for seed in SEEDS:
        outcome = run_campaign(plan_of(seed))
        assert not outcome.violations, f"scripts/simulate --seed {seed}"
        totals.add(outcome)
    assert totals.never_struck == []
    assert totals.rows > 10 * len(SEEDS)


@pytest.mark.parametrize("seed", [8, 22])
def test_a_seed_goes_the_same_way_each_time(seed: int) -> None:
    first, second = run_campaign(plan_of(seed)), run_campaign(plan_of(seed))
    assert first.trace_hash == second.trace_hash
    assert first.struck == second.struck
    assert first.steps == second.steps


def test_another_schedule_goes_another_way() -> None:
    plan = plan_of(8)
    other = msgspec.structs.replace(plan, schedule=1)
    assert run_campaign(plan).trace_hash != run_campaign(other).trace_hash


def test_a_plan_is_a_value() -> None:
    plan = plan_of(3)
    assert plan == plan_of(3)
    assert plan != plan_of(4)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


@pytest.mark.parametrize("name", PLANTED_HERE)
def test_a_planted_bug_is_found(name: str) -> None:
    found = find_planted(PLANTED[name], first=0, budget=60)
    assert found is not None, f"{name} is not found: {PLANTED[name].what}"


def test_there_are_at_least_forty_planted_bugs() -> None:
    assert len(PLANTED) >= 40


def test_random_definitions_start_runs_in_every_way() -> None:
    text = " ".join(msgspec.json.encode(plan_of(seed).definitions).decode() for seed in SEEDS)
    for part in ('"do":{"steps"', '"definition":"flow-', '"mode":"async"', '"mode":"child_workflow"', '"child":true'):
        assert part in text, part
    for part in ('"on_parent_close":"abandon"', '"wait_for":"checkpoint:half"', '"on_timeout":"detach"'):
        assert part in text, part


def test_a_failure_is_shrunk_and_still_fails_the_same_way() -> None:
    bug = PLANTED["signal_not_buffered"]
    failing = find_planted(bug, first=0, budget=60)
    assert failing is not None

    def run(plan: Plan) -> Outcome:
        with bug.plant():
            return run_campaign(plan)

    smaller = shrunk(failing, run, max_campaigns=40)
    assert plan_size(smaller.plan) < plan_size(failing.plan) // 2
    assert failing.violations[0].rule in {violation.rule for violation in smaller.violations}
    assert smaller.journals


def test_the_command_shows_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1"]) == 0
    assert "trace " in capsys.readouterr().out


def test_the_command_fails_on_a_violation(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.simulation.__main__.shrunk", lambda failing: failing)
    with PLANTED["dispatch_before_commit"].plant():
        assert main(["--seeds", "5"]) == 1
    told = capsys.readouterr().out
    assert "dispatched before its commit" in told
    assert "again: scripts/simulate --seed" in told
