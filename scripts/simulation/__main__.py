"""Command line of the simulation; `scripts/simulate --help` tells what there is."""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console

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
    if options.planted is not None:
        bugs = [PLANTED[name] for name in options.planted or PLANTED]
        return _show_planted(console, bugs, options.first, options.seeds or PLANTED_BUDGET, options.seconds)
    if options.seed is not None:
        return _show_seed(console, options.seed, restarts=options.restarts)
    return _search(console, options.first, options.seeds or SEEDS, options.seconds, restarts=options.restarts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Run the real engine on a seeded scheduler with faults, and hold it to its guarantees.",
    )
    parser.add_argument("--seeds", type=int, metavar="N", help=f"how many campaigns (default {SEEDS})")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="S", help="the first seed (default 0)")
    parser.add_argument("--seed", type=int, metavar="S", help="one campaign, twice, in full detail")
    parser.add_argument(
        "--planted", nargs="*", choices=tuple(PLANTED), metavar="BUG", help="plant these bugs, or all, and find each"
    )
    parser.add_argument(
        "--restarts", action="store_true", help="campaigns in which hosts are restarted in order, and no worse, alone"
    )
    parser.add_argument("--seconds", type=float, metavar="T", help="begin nothing new after this time")
    return parser


def _search(console: Console, first: int, count: int, seconds: float | None, *, restarts: bool) -> int:
    began, totals = time.monotonic(), Totals()
    failing: Outcome | None = None
    for outcome in _outcomes(first, count, seconds, restarts=restarts):
        totals.add(outcome)
        if outcome.violations:
            failing = outcome
            break
    print_totals(console, totals, time.monotonic() - began)
    if failing is not None:
        _explain(console, failing, restarts=restarts)
        return 1
    if totals.campaigns >= SEEDS_FOR_ALL_FAULTS and totals.never_struck and not restarts:
        console.print(f"never struck: {', '.join(totals.never_struck)}")
        return 1
    return 0


def _outcomes(first: int, count: int, seconds: float | None, *, restarts: bool) -> Iterator[Outcome]:
    until = None if seconds is None else time.monotonic() + seconds
    for seed in range(first, first + count):
        if until is not None and time.monotonic() > until:
            return
        yield run_campaign(plan_of(seed, restarts=restarts))


def _show_seed(console: Console, seed: int, *, restarts: bool) -> int:
    outcome, again = (run_campaign(plan_of(seed, restarts=restarts)) for _ in range(2))
    totals = Totals()
    totals.add(outcome)
    print_totals(console, totals, 0.0)
    console.print(f"trace {outcome.trace_hash}")
    if again.trace_hash != outcome.trace_hash:
        console.print(f"the second time it was {again.trace_hash}: the simulation is not deterministic")
        return 1
    if outcome.violations:
        _explain(console, outcome, restarts=restarts)
        return 1
    return 0


def _explain(console: Console, failing: Outcome, *, restarts: bool) -> None:
    print_violations(console, failing)
    smaller = shrunk(failing)
    console.print(f"shrunk from {plan_size(failing.plan)} parts to {plan_size(smaller.plan)}:")
    print_violations(console, smaller)
    print_trace(console, smaller)
    console.print(f"again: scripts/simulate --seed {failing.plan.seed}{' --restarts' if restarts else ''}")


def _show_planted(console: Console, bugs: Sequence[PlantedBug], first: int, budget: int, seconds: float | None) -> int:
    missed = []
    until = None if seconds is None else time.monotonic() + seconds
    for bug in bugs:
        if until is not None and time.monotonic() > until:
            console.print(f"{bug.name}: not tried")
            continue
        began_s = time.process_time()
        found = find_planted(bug, first, budget)
        took = f"{time.process_time() - began_s:.1f} s of processor time"
        if found is None:
            missed.append(bug.name)
            console.print(f"{bug.name}: NOT FOUND by {budget} seeds, {took}: {bug.what}", soft_wrap=True)
        else:
            tried, rule = found.plan.seed - first + 1, found.violations[0].rule
            console.print(f"{bug.name}: found by seed number {tried}, rule {rule}, {took}", soft_wrap=True)
    if missed:
        console.print(f"not found: {', '.join(missed)}")
    return 1 if missed else 0


def find_planted(bug: PlantedBug, first: int, budget: int) -> Outcome | None:
    """The first campaign that goes wrong with the bug planted; None where none of `budget` does."""
    with bug.plant():
        return next(
            (outcome for outcome in _outcomes(first, budget, None, restarts=bug.restarts) if outcome.violations), None
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
