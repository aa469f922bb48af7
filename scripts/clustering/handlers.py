"""What the workers of the cluster can do. Each execution is written to the ledger: that is what really happened."""

import asyncio
import os
from pathlib import Path

import ductor

LEDGER_VARIABLE = "DUCTOR_CLUSTER_LEDGER"

DEFINITION = """
ductor: 1
name: parcel
input: {type: object, required: [n]}
defaults: {task: {retry: {max_attempts: 5, initial: 50ms}}}
steps:
  - {ref: pick, type: task, task: cluster.pick, input: {n: "${trigger.n}"}, next: [weigh, label]}
  - {ref: weigh, type: task, task: cluster.weigh, input: {n: "${steps.pick.output}"}, next: sum}
  - {ref: label, type: task, task: cluster.pick, input: {n: "${steps.pick.output}"}, next: sum}
  - {ref: sum, type: transform, value: "${steps.weigh.output + steps.label.output}"}
output: ${steps.sum.output}
"""


def expected_output(n: int) -> int:
    """What a run of `DEFINITION` gives."""
    picked = n + 1
    return picked * 2 + picked + 1


def _record(context: ductor.TaskContext) -> None:
    ledger = os.environ.get(LEDGER_VARIABLE)
    if ledger:
        with Path(ledger).open("a", encoding="utf-8") as lines:
            lines.write(context.idempotency_key + "\n")


@ductor.task("cluster.pick")
async def pick(n: int, context: ductor.TaskContext) -> int:
    """One more."""
    _record(context)
    await asyncio.sleep(0.01)
    return n + 1


@ductor.task("cluster.weigh")
def weigh(n: int, context: ductor.TaskContext) -> int:
    """Twice as much, in a thread; the first attempt fails."""
    _record(context)
    if context.attempt == 1:
        raise ConnectionError("the scales do not answer")
    return n * 2
