"""What is measured: the workloads, and which system does which of them, how much of it and how often.

The sizes make most measurements last two to ten seconds on two quiet cores. What takes a system very long is measured
once.
"""

from typing import Literal

import msgspec

from scripts.benchmarks.peers.systems import OURS, SYSTEMS

ROUNDS = 3
QUICK_SHARE = 10
QUICK_RUNS_MIN = 10


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of work.

    Attributes:
        figure: the result that decides who is ahead, a name with its unit.
        more: other results that the table shows.
        is_rate: more is better; a time: less is.
    """

    name: str
    title: str
    figure: str
    is_rate: bool = False
    more: tuple[str, ...] = ()


WORKLOADS: dict[str, Workload] = {
    one.name: one
    for one in (
        Workload(
            name="W1",
            title="runs of 10 sequential no-op steps, many in flight",
            figure="steps_per_s",
            is_rate=True,
            more=("p50_ms", "p99_ms"),
        ),
        Workload(name="W2a", title="one run at a time, of 1 step: start to result", figure="p50_ms", more=("p99_ms",)),
        Workload(
            name="W2b", title="one run at a time, of 10 steps: start to result", figure="p50_ms", more=("p99_ms",)
        ),
        Workload(name="W3", title="one run gathers 1,000 steps", figure="p50_ms"),
        Workload(name="W3c", title="one run gathers 1,000 child runs", figure="p50_ms"),
        Workload(
            name="W4",
            title="runs parked on a signal: signal to result, one at a time",
            figure="p50_ms",
            more=("p99_ms", "parks_per_s", "signalled_per_s", "kb_each", "kb_each_in_postgresql"),
        ),
        Workload(
            name="W5",
            title="5,000 runs sleep 5 s: how late they wake, as they see it",
            figure="p99_ms",
            more=("p50_ms", "started_s", "seconds"),
        ),
    )
}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the plan: so many runs, so many at once, in so many rounds."""

    workload: str
    system: str
    variant: str
    runs: int
    in_flight: int
    rounds: int

    @property
    def group(self) -> tuple[str, int]:
        """Entries of one group do the same work under the same load, and are compared."""
        return self.workload, self.in_flight if self.workload == "W1" else 0

    @property
    def label(self) -> str:
        """Who this is, for tables."""
        title = SYSTEMS[self.system].title
        return title if self.variant == "default" else f"{title}, {self.variant}"


Row = tuple[str, str, int, int, Literal[1, 3]]
"""System, variant, runs, in flight, rounds."""

_ROWS: dict[str, tuple[Row, ...]] = {
    "W1": (
        (OURS, "default", 1_000, 16, 3),
        (OURS, "uvloop", 1_500, 16, 3),
        ("dbos", "default", 150, 16, 3),
        ("restate", "default", 500, 16, 3),
        ("temporal", "default", 60, 16, 3),
        (OURS, "default", 1_500, 64, 3),
        (OURS, "uvloop", 2_000, 64, 3),
        ("dbos", "default", 150, 64, 3),
        ("restate", "default", 800, 64, 3),
        ("temporal", "default", 100, 64, 3),
        ("absurd", "default", 600, 64, 3),
        ("pgqueuer", "default", 500, 64, 3),
        ("procrastinate", "default", 100, 64, 1),
        ("celery", "default", 200, 64, 1),
        (OURS, "default", 2_560, 512, 3),
        (OURS, "uvloop", 3_584, 512, 3),
        ("dbos", "default", 512, 512, 1),
        ("restate", "default", 1_024, 512, 3),
        ("restate", "two-workers", 1_024, 512, 3),
        ("pgqueuer", "default", 512, 512, 3),
    ),
    "W2a": (
        (OURS, "default", 300, 1, 3),
        (OURS, "uvloop", 300, 1, 3),
        ("dbos", "default", 200, 1, 3),
        ("restate", "default", 200, 1, 3),
        ("temporal", "default", 60, 1, 3),
        ("absurd", "default", 20, 1, 1),
        ("absurd", "fast-poll", 40, 1, 3),
        ("pgqueuer", "default", 200, 1, 3),
        ("procrastinate", "default", 40, 1, 1),
        ("celery", "default", 100, 1, 1),
    ),
    "W2b": (
        (OURS, "default", 150, 1, 3),
        (OURS, "uvloop", 150, 1, 3),
        ("dbos", "default", 80, 1, 3),
        ("restate", "default", 120, 1, 3),
        ("temporal", "default", 20, 1, 3),
        ("absurd", "default", 20, 1, 1),
        ("absurd", "fast-poll", 40, 1, 3),
        ("pgqueuer", "default", 80, 1, 3),
        ("procrastinate", "default", 20, 1, 1),
        ("celery", "default", 80, 1, 1),
    ),
    "W3": (
        (OURS, "default", 10, 1, 3),
        (OURS, "uvloop", 10, 1, 3),
        ("dbos", "default", 1, 1, 3),
        ("restate", "default", 3, 1, 3),
        ("temporal", "default", 1, 1, 3),
    ),
    "W3c": (
        (OURS, "default", 5, 1, 3),
        (OURS, "uvloop", 5, 1, 3),
        ("dbos", "default", 1, 1, 3),
        ("restate", "default", 2, 1, 3),
        ("temporal", "default", 1, 1, 1),
        ("absurd", "default", 1, 1, 3),
        ("pgqueuer", "default", 3, 1, 3),
        ("procrastinate", "default", 1, 1, 1),
        ("celery", "default", 1, 1, 1),
    ),
    "W4": (
        (OURS, "default", 2_000, 64, 3),
        (OURS, "uvloop", 2_000, 64, 3),
        ("dbos", "default", 1_000, 64, 1),
        ("restate", "default", 2_000, 64, 1),
        ("temporal", "default", 1_000, 64, 1),
        ("absurd", "fast-poll", 1_000, 64, 1),
    ),
    "W5": (
        (OURS, "default", 5_000, 64, 3),
        (OURS, "uvloop", 5_000, 64, 3),
        ("dbos", "default", 5_000, 64, 1),
        ("restate", "default", 5_000, 64, 1),
        ("temporal", "default", 5_000, 64, 1),
        ("absurd", "default", 5_000, 64, 1),
    ),
}

NOT_PLANNED: dict[str, str] = {
    "W1, 16 and 512 in flight, Absurd and Celery": "all runs are sent at once, whatever the number",
    "W1, 16 in flight, PgQueuer": "64 and 512 are enough for reference",
    "W1, 16 and 512 in flight, Procrastinate": "64 is enough for reference",
    "W1, 512 in flight, Temporal (development server)": "takes minutes",
    "W4, Absurd as it comes": "200 signals one at a time would take as many polls; `fast-poll` stands for it",
}
"""What systems offer and the plan leaves out, and why."""


def plan(systems: frozenset[str], workloads: frozenset[str], rounds: int, *, is_quick: bool) -> list[Entry]:
    """The entries of these systems and workloads, in the order of a round; smaller where it must be quick."""
    entries: list[Entry] = []
    for workload, rows in _ROWS.items():
        for system, variant, runs, in_flight, of_three in rows:
            if workload not in workloads or system not in systems:
                continue
            entries.append(
                Entry(
                    workload=workload,
                    system=system,
                    variant=variant,
                    runs=_quick_runs(workload, runs, in_flight) if is_quick else runs,
                    in_flight=in_flight,
                    rounds=min(rounds, of_three),
                )
            )
    return entries


def _quick_runs(workload: str, runs: int, in_flight: int) -> int:
    """A tenth, but as many as are in flight, and of fan-outs, which can't be smaller, one."""
    if workload in ("W3", "W3c"):
        return 1
    return max(runs // QUICK_SHARE, min(runs, in_flight if workload == "W1" else QUICK_RUNS_MIN))
