"""A small workflow that most tests of the face run, and its handlers."""

import asyncio

import ductor

ORDER = """\
ductor: 1
name: order
input: {type: object, required: [order_id], properties: {order_id: {type: string}}}
output: {charge: "${steps.charge.output.charge_id}"}
steps:
  - {ref: reserve, type: task, task: inventory.reserve, input: {sku: "${trigger.order_id}"}, next: charge}
  - ref: charge
    type: task
    task: payments.charge
    input: {order_id: "${trigger.order_id}"}
    retry: {max_attempts: 3, initial: 1s, jitter: 0}
"""

SCENARIOS = """\
definitions: [order.yaml]
handlers:
  inventory.reserve: {returns: {reservation_id: "r-${input.sku}"}}
  payments.charge: [{when: n == 1, raises: Slow}, {takes: 2h, returns: {charge_id: c-1}}]
scenarios:
  - name: the first charge is slow
    start: order
    input: {order_id: o-1}
    expect:
      status: completed
      output: {charge: c-1}
      error: null
      context: {}
      duration: 2h1s
      steps: {reserve: succeeded, charge: succeeded}
      calls: {inventory.reserve: 1, payments.charge: 2}
      compensations: []
  - name: declined
    start: order
    input: {order_id: o-2}
    handlers: {payments.charge: {raises: Declined, message: "no ${input.order_id}", retryable: false}}
    expect: {status: failed, error: Declined, calls: {payments.charge: 1}}
  - name: cancelled in the middle
    start: order
    input: {order_id: o-3}
    send: [{at: 1h, control: cancel, by: boss}, {at: 3h, control: cancel, refused: true}]
    expect: {status: cancelled, duration: 1h, steps: {reserve: succeeded, charge: cancelled}}
"""


@ductor.task("inventory.reserve")
async def reserve(sku: str) -> dict[str, str]:
    return {"reservation_id": f"r-{sku}"}


@ductor.task("payments.charge")
def charge(order_id: str) -> dict[str, str]:
    if order_id == "o-declined":
        raise ductor.NonRetryable("no money", type="Declined", details={"code": 51})
    return {"charge_id": f"c-{order_id}"}


@ductor.task("payments.charge")
async def charge_for_ever(order_id: str) -> None:
    await asyncio.Event().wait()
