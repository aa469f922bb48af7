"""Command line of the simulation; `scripts/simulate --help` tells what there is."""

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.table import Table

from scripts.simulation.campaign import Outcome, run_campaign
from scripts.simulation.planning import plan_of
from scripts.simulation.planted import PLANTED, PlantedBug
from scripts.simulation.report import Totals, print_totals, print_trace, print_violations
from scripts.simulation.shrink import plan_size, shrunk

SEEDS: Final = 100
PLANTED_BUDGET: Final = 300
"""Seeds within which each planted bug has to be found, unless `--seeds` says otherwise."""

SEEDS_FOR_ALL_FAULTS: Final = 100
"""So many campaigns must have met every kind of fault."""


def main(arguments: list[str]) -> int:
    """Run what is asked for; 1 if something is wrong."""
    options = _parser().parse_args(arguments)
    console = Console(highlight=False)
    if options.planted:
        return _show_planted(console, options.first, options.seeds or PLANTED_BUDGET, options.seconds)
    if options.seed is not None:
        return _show_seed(console, options.seed)
    return _search(console, options.first, options.seeds or SEEDS, options.seconds)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Run the real engine on a seeded scheduler with faults, and hold it to its guarantees.",
    )
    parser.add_argument("--seeds", type=int, metavar="N", help=f"how many campaigns (default {SEEDS})")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="S", help="the first seed (default 0)")
    parser.add_argument("--seed", type=int, metavar="S", help="one campaign, twice, in full detail")
    parser.add_argument("--planted", action="store_true", help="plant bugs, one after another, and find them")
    parser.add_argument("--seconds", type=float, metavar="T", help="begin nothing new after this time")
    return parser


def _search(console: Console, first: int, count: int, seconds: float | None) -> int:
    began, totals = time.monotonic(), Totals()
    failing: Outcome | None = None
    for outcome in _outcomes(first, count, seconds):
        totals.add(outcome)
        if outcome.violations:
            failing = outcome
            break
    print_totals(console, totals, time.monotonic() - began)
    if failing is not None:
        _explain(console, failing)
        return 1
    if totals.campaigns >= SEEDS_FOR_ALL_FAULTS and totals.never_struck:
        console.print(f"never struck: {', '.join(totals.never_struck)}")
        return 1
    return 0


def _outcomes(first: int, count: int, seconds: float | None) -> Iterator[Outcome]:
    until = None if seconds is None else time.monotonic() + seconds
    for seed in range(first, first + count):
        if until is not None and time.monotonic() > until:
            return
        yield run_campaign(plan_of(seed))


def _show_seed(console: Console, seed: int) -> int:
    outcome, again = run_campaign(plan_of(seed)), run_campaign(plan_of(seed))
    totals = Totals()
    totals.add(outcome)
    print_totals(console, totals, 0.0)
    console.print(f"trace {outcome.trace_hash}")
    if again.trace_hash != outcome.trace_hash:
        console.print(f"the second time it was {again.trace_hash}: the simulation is not deterministic")
        return 1
    if outcome.violations:
        _explain(console, outcome)
        return 1
    return 0


def _explain(console: Console, failing: Outcome) -> None:
    print_violations(console, failing)
    smaller = shrunk(failing)
    console.print(f"shrunk from {plan_size(failing.plan)} parts to {plan_size(smaller.plan)}:")
    print_violations(console, smaller)
    print_trace(console, smaller)
    console.print(f"again: scripts/simulate --seed {failing.plan.seed}")


def _show_planted(console: Console, first: int, budget: int, seconds: float | None) -> int:
    table, missed = Table("planted bug", "what it does", "seeds", "seconds", "found by"), []
    until = None if seconds is None else time.monotonic() + seconds
    for bug in PLANTED.values():
        if until is not None and time.monotonic() > until:
            console.print(f"not tried: {bug.name}")
            continue
        began = time.monotonic()
        found = find_planted(bug, first, budget)
        took_s = f"{time.monotonic() - began:.1f}"
        if found is None:
            missed.append(bug.name)
            table.add_row(bug.name, bug.what, f"more than {budget}", took_s, "nothing")
        else:
            tried = str(found.plan.seed - first + 1)
            table.add_row(bug.name, bug.what, tried, took_s, found.violations[0].rule)
    console.print(table)
    if missed:
        console.print(f"not found: {', '.join(missed)}")
    return 1 if missed else 0


def find_planted(bug: PlantedBug, first: int, budget: int) -> Outcome | None:
    """The first campaign that goes wrong with the bug planted; None where none of `budget` does."""
    with bug.plant():
        return next((outcome for outcome in _outcomes(first, budget, None) if outcome.violations), None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
