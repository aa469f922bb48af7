"""Continue-as-new: how a run makes way for another one that begins anew with what it has learned.

```
  open ──control, `continue_as_new_after`──▶ winding down ──nothing open, or `CONTINUE_WAIT_MS` over──▶ continued
    └────`repeat`, with nothing left to do──▶ pausing for `every` ──its time──▶ continued
```
- Asked to continue, the run starts nothing any more. What is parked is cancelled at once; attempts in flight and
  children may finish, and their effects count. What has not finished in time is cancelled.
- The successor begins at the entrypoints of the same manifest. It has the trigger, the context as it is now, the
  lineage, the deadline of the whole chain, and the children that are under way. Outputs of steps stay behind, and so do
  undos: what a continued run did is done for good. `defer` runs once, when the last run of the chain ends.
- A cancel, a terminate, a failure or the run's timeout that comes before the end wins.
- What waits in the run's inbox when it continues is moved to the successor by the same statement; what arrives later is
  moved when it is found.

The id of the successor is derived from the run, the request and the time of the row that decides it, so that whoever
computes this row finds the same one.
"""

from ductor.actors.tick.closing import begin_closing, terminate
from ductor.actors.tick.outbox import StartedRun
from ductor.actors.tick.settle import expression_failure
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.program import ProgramNode
from ductor.journal.codec import encode_value
from ductor.journal.commit import Payload
from ductor.journal.events import (
    CONTINUE_TIMER,
    RUN_TIMEOUT_TIMER,
    ContinueRequested,
    ControlReceived,
    ErrorInfo,
    HistoryWarned,
    NodeSettled,
    OpenChild,
    RunContinued,
    RunStarted,
)
from ductor.journal.ids import derived_run_id
from ductor.journal.state import RunState
from ductor.journal.trace_context import own_traceparent, parse_traceparent

CONTINUE_WAIT_MS = 60_000
"""How long attempts in flight and children of a run that is asked to continue may take to finish."""

SOFT_LIMIT_PERCENT = 80
"""Share of `continue_as_new_after` at which a run is warned of, once."""

SAFETY_NET_MULTIPLE = 4
"""A run that has come to so many times its `continue_as_new_after` without being able to continue is terminated."""

REQUEST_OF_LIMIT = "@continue_as_new_after"
"""The request id of a run that continues because it has become long."""

REQUEST_OF_REPEAT = "@repeat"
"""The request id of a run that continues because its `repeat` says so."""


def continue_by_control(tick: Tick, control: ControlReceived) -> str:
    """Carry out the control. Returns why it is refused, empty when it is applied."""
    state = tick.state
    if state.paused_at_us is not None:
        return "the run is paused; resume it first"
    if state.closing is not None:
        return "the run is ending"
    if state.continuing is not None and not state.continuing.is_timed:
        return "the run is being continued already"
    tick.emit(control)
    given = control.arguments.get("reason")
    reason = given if isinstance(given, str) else ""
    by = f" by {control.by}" if control.by else ""
    _request(tick, control.request_id, f"continue_as_new requested{by}" + (f": {reason}" if reason else ""))
    return ""


def goes_another_round(tick: Tick) -> bool:
    """Whether a run that has nothing left to do is to be continued by its `repeat`; then that is decided."""
    repeat, until = tick.program.manifest.repeat, tick.program.repeat_until
    if repeat is None or until is None:
        return False
    rounds = tick.state.iteration + 1
    try:
        if until.evaluate_boolean(tick.activation):
            return False
    except ExpressionError as error:
        begin_closing(tick, "failed", error=expression_failure(error), reason="`repeat.until` failed")
        return True
    if rounds < repeat.max:
        reason = f"round {rounds} of `repeat` is over"
        if repeat.every_ms:
            until_us = tick.now_us + repeat.every_ms * 1_000
            tick.emit(ContinueRequested(request_id=REQUEST_OF_REPEAT, until_us=until_us, reason=reason, is_timed=True))
        else:
            _request(tick, REQUEST_OF_REPEAT, reason)
        return True
    if repeat.on_max == "continue":
        return False
    message = f"`repeat.until` of the definition did not hold after {rounds} rounds"
    error_info = ErrorInfo(type="RepeatExhausted", message=message, retryable=False)
    begin_closing(tick, "failed", error=error_info, reason=message)
    return True


def watch_length(tick: Tick) -> None:
    """Warn of a run that has become long, and end one that has become far too long without a way to continue. Only
    where its definition sets `continue_as_new_after`."""
    state, limit = tick.state, tick.program.manifest.continue_as_new_after
    if limit is None or not tick.events or state.is_terminal or state.closing is not None:
        return
    if not state.is_warned and state.version * 100 >= limit * SOFT_LIMIT_PERCENT:
        tick.emit(HistoryWarned(transitions=state.version, limit=limit))
    if state.version >= limit * SAFETY_NET_MULTIPLE:
        text = (
            f"{state.version} transitions are {SAFETY_NET_MULTIPLE} times its `continue_as_new_after` of {limit}, and"
            " at none of them was it without a step under way: raise the limit, or let steps settle from time to time"
        )
        terminate(tick, text, error_type="HistoryTooLong")


def makes_way(tick: Tick, node: ProgramNode) -> bool:
    """Whether the run is to be continued instead of starting this node: it has become long, and nothing is under way.
    Then that is decided."""
    state, limit = tick.state, tick.program.manifest.continue_as_new_after
    if limit is None or not node.sources or state.open_nodes or not tick.events or state.version < limit:
        return False
    _request(tick, REQUEST_OF_LIMIT, f"it has {state.version} transitions, and `continue_as_new_after` is {limit}")
    return True


def advance_continuing(tick: Tick) -> None:
    """Nothing is under way: the successor begins, unless a pause comes before it."""
    state = tick.state
    continuing = state.continuing
    assert continuing is not None
    if continuing.is_timed and state.timers.due_at_us(CONTINUE_TIMER) is not None:
        return
    successor = _successor(tick, continuing.request_id)
    tick.outbox.started.append(successor)
    tick.outbox.forward_to(successor.run_id)
    tick.emit(
        RunContinued(successor_run_id=successor.run_id, request_id=continuing.request_id, reason=continuing.reason)
    )


def _request(tick: Tick, request_id: str, reason: str) -> None:
    state = tick.state
    until_us = tick.now_us + CONTINUE_WAIT_MS * 1_000
    tick.emit(ContinueRequested(request_id=request_id, until_us=until_us, reason=reason))
    for ref in list(state.open_nodes):
        node = state.nodes[ref]
        if node.status == "waiting" and node.waiting != "child":
            tick.emit(NodeSettled(node=ref, status="cancelled"))


def _successor(tick: Tick, request_id: str) -> StartedRun:
    state = tick.state
    run_id = derived_run_id(tick.now_us, state.run_id, request_id)
    started = RunStarted(
        tenant=state.tenant,
        definition=state.definition,
        manifest_hash=state.manifest_hash,
        entrypoints=tick.program.entrypoints,
        trigger=state.trigger,
        trigger_ref=state.trigger_ref,
        config=state.config,
        context=dict(state.context),
        search_attributes=state.search_attributes,
        key=state.key,
        timeout_at_us=state.timers.due_at_us(RUN_TIMEOUT_TIMER),
        parent_run_id=state.parent_run_id,
        root_run_id=state.root_run_id or state.run_id,
        depth=state.depth,
        iteration=state.iteration + 1,
        continued_from_run_id=state.run_id,
        parent_node=state.parent_node,
        parent_generation=state.parent_generation,
        parent_waits_for=state.parent_waits_for,
        body=state.body,
        scope=state.scope,
        definitions=state.definitions,
        chain_run_id=state.chain_run_id or state.run_id,
        open_children=tuple(OpenChild(run_id=run_id, node=node) for run_id, node in state.open_children.items()),
        lease_key=state.lease_key,
        lease_fence=state.lease_fence,
        traceparent=_traceparent(state, run_id),
    )
    ref = state.trigger_ref
    payloads = () if ref is None else (Payload(ref.hash, encode_value(state.value(None, ref))),)
    return StartedRun(run_id, started, payloads)


def _traceparent(state: RunState, run_id: str) -> str:
    """Who continues a run has a trace of its own: one of a chain that never ends would never end either."""
    context = parse_traceparent(state.traceparent)
    return "" if context is None else own_traceparent(run_id, is_sampled=context.is_sampled)
