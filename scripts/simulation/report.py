"""What people read of campaigns."""

import re
from collections import Counter
from typing import Final

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ductor.definitions.values import JsonObject
from ductor.testing.clock import START_US
from scripts.simulation.campaign import Outcome
from scripts.simulation.plan import FAULT_KINDS, HANDLER_FAULTS, Plan

EXPECTED: Final = (
    *FAULT_KINDS,
    *(f"handler {kind}" for kind in HANDLER_FAULTS),
    "conflict",
    "commit sent twice",
    "redelivery",
    "rows removed",
)
"""What has to happen somewhere in a set of campaigns; otherwise it has not been tested."""

MAX_JOURNALS: Final = 3

LONG_TEXT: Final = re.compile(r'"([^"]{40})[^"]{200,}"')
"""What is large on purpose says nothing."""


class Totals:
    """Sums over campaigns."""

    def __init__(self) -> None:
        self.campaigns = self.runs = self.rows = self.steps = 0
        self.virtual_s = 0.0
        self.struck: Counter[str] = Counter()
        self.struck_in: Counter[str] = Counter()

    def add(self, outcome: Outcome) -> None:
        """Count a campaign."""
        self.campaigns += 1
        self.runs += outcome.runs
        self.rows += outcome.rows
        self.steps += outcome.steps
        self.virtual_s += outcome.virtual_s
        self.struck.update(outcome.struck)
        self.struck_in.update(outcome.struck.keys())

    @property
    def never_struck(self) -> list[str]:
        """Kinds of faults that have not happened at all."""
        return [kind for kind in EXPECTED if not self.struck[kind]]


def print_totals(console: Console, totals: Totals, seconds: float) -> None:
    """What was done, and how often each kind of fault struck."""
    table = Table("fault", "times", "in campaigns")
    for kind in sorted({*totals.struck, *EXPECTED}):
        table.add_row(kind, str(totals.struck[kind]), str(totals.struck_in[kind]))
    console.print(table)
    console.print(
        f"{totals.campaigns} campaigns, {totals.runs} runs, {totals.rows} rows, {totals.steps} callbacks, "
        f"{totals.virtual_s / 3_600:.1f} virtual hours in {seconds:.1f} s"
    )


def print_violations(console: Console, outcome: Outcome) -> None:
    """What is wrong in a campaign."""
    console.print(f"seed {outcome.plan.seed}: {len(outcome.violations)} violations, trace {outcome.trace_hash[:16]}")
    for violation in outcome.violations:
        console.print("  " + escape(str(violation)), soft_wrap=True)


def print_trace(console: Console, outcome: Outcome) -> None:
    """The plan of a failing campaign and the journals of the runs concerned."""
    console.print("plan:")
    for line in plan_lines(outcome.plan):
        console.print("  " + escape(line), soft_wrap=True)
    concerned = dict.fromkeys(violation.run_id for violation in outcome.violations if violation.run_id)
    for run_id in list(concerned)[:MAX_JOURNALS]:
        console.print(f"journal of run {run_id}:")
        for row in outcome.journals.get(run_id, ()):
            at_ms = (row.at_us - START_US) // 1_000
            console.print(
                f"  {row.version} at {at_ms} ms: " + escape(LONG_TEXT.sub(r'"\1..."', row.events.decode())),
                soft_wrap=True,
            )


def plan_lines(plan: Plan) -> list[str]:
    """A plan as text: one line for each of its parts."""
    lines = [
        f"hosts {_text(plan.hosts)}, faults until {plan.quiet_at_ms} ms, handlers {', '.join(plan.handler_faults)}"
    ]
    lines += [f"definition {number}: {_text(definition)}" for number, definition in enumerate(plan.definitions)]
    lines += [f"start {number}: {_text(start)}" for number, start in enumerate(plan.starts)]
    lines += [f"send {_text(action)}" for action in sorted(plan.actions, key=lambda action: action.at_ms)]
    lines += [f"fault {_text(fault)}" for fault in plan.faults]
    return lines


def _text(value: msgspec.Struct | JsonObject) -> str:
    return _shortened(msgspec.json.encode(value).decode())


def _shortened(text: str) -> str:
    return LONG_TEXT.sub(r'"\1..."', text)
