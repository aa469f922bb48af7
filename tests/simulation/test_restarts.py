"""Campaigns in which hosts are restarted in order, one after another, and nothing worse happens."""

import pytest

from scripts.simulation.__main__ import find_planted
from scripts.simulation.campaign import run_campaign
from scripts.simulation.planning import plan_of
from scripts.simulation.planted import PLANTED
from scripts.simulation.repetitions import DISTURBING

SEEDS = range(3)
PLANNED = range(60)
PLANTED_HERE = ("results_left_behind",)


@pytest.mark.timeout(300)
def test_every_handler_is_called_once() -> None:
    restarts = 0
    for seed in SEEDS:
        outcome = run_campaign(plan_of(seed, restarts=True))
        assert not outcome.violations, f"scripts/simulate --restarts --seed {seed}"
        restarts += outcome.struck.get("restart", 0)
    assert restarts > 10 * len(SEEDS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", PLANTED_HERE)
def test_a_planted_bug_is_found(name: str) -> None:
    found = find_planted(PLANTED[name], first=0, budget=20)
    assert found is not None, f"{name} is not found: {PLANTED[name].what}"
    assert found.violations[0].rule == "carried out twice"


def test_plans_restart_every_host_and_have_no_fault_that_is_a_reason_to_call_again() -> None:
    for seed in PLANNED:
        plan = plan_of(seed, restarts=True)
        assert {fault.host for fault in plan.faults if fault.kind == "restart"} == set(range(1, plan.hosts.count + 1))
        assert not [fault for fault in plan.faults if fault.kind in DISTURBING]
        assert all(0 <= fault.host <= plan.hosts.count for fault in plan.faults)
        assert all(fault.for_ms < plan.hosts.heartbeat_ms for fault in plan.faults if fault.kind == "freeze")
