"""From samples to tables: medians, spreads, and ratios of the engine to the others.

A ratio says how many times better the engine is: its rate divided by theirs, or their time divided by its. Below one
it loses.
"""

import statistics
from collections.abc import Iterable

import msgspec

from scripts.benchmarks.peers.measure import Sample
from scripts.benchmarks.peers.plan import NOT_PLANNED, WORKLOADS, Entry, Workload
from scripts.benchmarks.peers.systems import OURS, SYSTEMS
from scripts.benchmarks.report import Cell, Table


class Outcome(msgspec.Struct, kw_only=True):
    """An entry of the plan and its samples, one for each round that was measured."""

    entry: Entry
    samples: list[Sample] = []

    @property
    def good(self) -> list[Sample]:
        """Samples with figures."""
        return [sample for sample in self.samples if not sample.error]

    def values(self, figure: str) -> list[float]:
        """A figure in all rounds that have it."""
        return [sample.figures[figure] for sample in self.good if figure in sample.figures]

    def median(self, figure: str) -> float | None:
        """Its median; None where no round has it."""
        values = self.values(figure)
        return statistics.median(values) if values else None


def times_better(workload: Workload, ours: float | None, theirs: float | None) -> float | None:
    """How many times better ours is."""
    if ours is None or theirs is None:
        return None
    return ours / theirs if workload.is_rate else theirs / ours


def group_tables(outcomes: Iterable[Outcome]) -> list[Table]:
    """One table for each workload and load: every system beside the engine."""
    return [_group_table(group) for group in _groups(outcomes)]


def summary_table(outcomes: Iterable[Outcome]) -> Table:
    """The engine beside the best durable peer of each workload and load."""
    table = Table(
        name="summary",
        title="ductor, all settings as they come, beside the best durable engine of each workload",
        columns=("workload", "figure", "ductor", "best_peer", "its_figure", "times_better"),
        note="times better: above 1 ductor is ahead, below it loses",
    )
    for group in _groups(outcomes):
        workload = WORKLOADS[group[0].entry.workload]
        ours = _ours(group)
        peers = [
            (value, outcome.entry.label)
            for outcome in group
            if SYSTEMS[outcome.entry.system].kind == "engine"
            and outcome.entry.system != OURS
            and (value := outcome.median(workload.figure)) is not None
        ]
        best, label = (max if workload.is_rate else min)(peers, default=(None, None))
        table.add(_work(group[0].entry), workload.figure, _rounded(ours), label, _rounded(best),
                  _rounded(times_better(workload, ours, best)))  # fmt: skip
    return table


def losses(outcomes: Iterable[Outcome]) -> list[str]:
    """Where the engine loses, to whichever system, queues too: one line each."""
    lines: list[str] = []
    for group in _groups(outcomes):
        workload, ours = WORKLOADS[group[0].entry.workload], _ours(group)
        for outcome in group:
            ratio = times_better(workload, ours, outcome.median(workload.figure))
            if outcome.entry.system != OURS and ratio is not None and ratio < 1:
                lines.append(f"{_work(outcome.entry)}: {outcome.entry.label} is {1 / ratio:.2f} times better")
    return lines


def omissions(outcomes: Iterable[Outcome], not_installed: dict[str, str], systems: Iterable[str]) -> list[str]:
    """What has no figures, and why: one line each."""
    lines = [f"{SYSTEMS[name].title} could not be installed: {why}" for name, why in not_installed.items()]
    for outcome in outcomes:
        errors = [sample.error for sample in outcome.samples if sample.error]
        if errors:
            rounds = f"{len(errors)} of {len(outcome.samples)} rounds"
            lines.append(f"{_work(outcome.entry)}, {outcome.entry.label}: {rounds} failed: {errors[-1]}")
        if len(outcome.samples) < outcome.entry.rounds:
            missing = f"{outcome.entry.rounds - len(outcome.samples)} of {outcome.entry.rounds} rounds"
            lines.append(f"{_work(outcome.entry)}, {outcome.entry.label}: {missing} not measured: the time was over")
    lines.extend(f"{what}: {why}" for what, why in NOT_PLANNED.items())
    for name in systems:
        lines.extend(f"{workload}: {SYSTEMS[name].title} has none: {why}"
                     for workload, why in SYSTEMS[name].not_offered.items())  # fmt: skip
    return lines


def durability_table(systems: Iterable[str], versions: dict[str, tuple[str, ...]]) -> Table:
    """Who is compared, in which versions, and what is on disk when a step counts as done."""
    table = Table(name="systems", title="Systems", columns=("system", "kind", "versions", "on_disk_when_a_step_counts"))
    for name in systems:
        system = SYSTEMS[name]
        table.add(system.title, system.kind, ", ".join(versions.get(name, ())) or "–", system.durability)
    return table


def _groups(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    groups: dict[tuple[str, int], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.entry.group, []).append(outcome)
    return list(groups.values())


def _ours(group: list[Outcome]) -> float | None:
    """The deciding figure of the engine with all its settings as they come."""
    for outcome in group:
        if outcome.entry.system == OURS and outcome.entry.variant == "default":
            return outcome.median(WORKLOADS[outcome.entry.workload].figure)
    return None


def _group_table(group: list[Outcome]) -> Table:
    entry = group[0].entry
    workload = WORKLOADS[entry.workload]
    shown = [name for name in workload.more if any(outcome.values(name) for outcome in group)]
    table = Table(
        name=_work(entry),
        title=f"{_work(entry)}: {workload.title}",
        columns=("system", workload.figure, "ductor_is_times_better", "lowest", "highest", *shown, "rounds",
                 "others_cores"),
        note="medians of the rounds; others: processor cores that other programs used meanwhile",
    )  # fmt: skip
    ours = _ours(group)
    for outcome in group:
        values = outcome.values(workload.figure)
        cells: list[Cell] = [_rounded(outcome.median(workload.figure))]
        cells.append(_rounded(times_better(workload, ours, outcome.median(workload.figure))))
        cells += [_rounded(min(values)), _rounded(max(values))] if values else [None, None]
        cells += [_rounded(outcome.median(name)) for name in shown]
        others = [sample.others_cores for sample in outcome.good]
        table.add(outcome.entry.label, *cells, len(others), _rounded(statistics.median(others) if others else None))
    return table


def _work(entry: Entry) -> str:
    return f"{entry.workload}, {entry.in_flight} in flight" if entry.workload == "W1" else entry.workload


def _rounded(value: float | None) -> float | None:
    """Three digits that mean something."""
    if value is None:
        return None
    return round(value) if abs(value) >= 100 else float(f"{value:.3g}")
