"""What the workers of the cluster can do, and a definition that uses it."""

import asyncio

import ductor

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


@ductor.task("cluster.pick")
async def pick(n: int) -> int:
    """One more."""
    await asyncio.sleep(0.01)
    return n + 1


@ductor.task("cluster.weigh")
def weigh(n: int, context: ductor.TaskContext) -> int:
    """Twice as much, in a thread; the first attempt fails."""
    if context.attempt == 1:
        raise ConnectionError("the scales do not answer")
    return n * 2
