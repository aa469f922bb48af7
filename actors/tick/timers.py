"""Phase 3: timers that are due."""

from ductor.actors.steps import BEHAVIOURS
from ductor.actors.tick.closing import begin_closing, close_open_nodes
from ductor.actors.tick.leasing import lease_timed_out
from ductor.actors.tick.settle import expression_failure, fail
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import CONTINUE_TIMER, GRACE_TIMER, RUN_TIMEOUT_TIMER, EndStatus, ErrorInfo, TimerFired


def fire_due_timers(tick: Tick, limit: int, before_us: int | None = None) -> int:
    """Fire what is due at the tick's time, in the order of the deadlines.

    Args:
        limit: how many at most.
        before_us: only what was due earlier than this.

    Returns:
        How many were fired.
    """
    timers = tick.state.timers
    for fired in range(limit):
        earliest = timers.earliest()
        if earliest is None or earliest[0] > tick.now_us or (before_us is not None and earliest[0] >= before_us):
            return fired
        due_at_us, key = earliest
        fire_timer(tick, TimerFired(key=key, due_at_us=due_at_us))
    return limit


def fire_timer(tick: Tick, timer: TimerFired) -> None:
    """Fire one timer, if it is still armed for that moment."""
    if tick.state.timers.due_at_us(timer.key) != timer.due_at_us:
        return
    tick.emit(timer)
    if timer.key == RUN_TIMEOUT_TIMER:
        _run_timed_out(tick)
    elif timer.key in (GRACE_TIMER, CONTINUE_TIMER):
        close_open_nodes(tick)
    elif tick.state.nodes[timer.key].waiting == "lease":
        lease_timed_out(tick, timer.key)
    else:
        node = tick.program.node(timer.key)
        try:
            BEHAVIOURS[node.step.type_name].on_timer(tick, node)
        except (ExpressionError, ValueRefusedError) as error:
            fail(tick, node, expression_failure(error))


def _run_timed_out(tick: Tick) -> None:
    manifest = tick.program.manifest
    message = f"the run did not end within {manifest.timeout_ms} ms"
    status: EndStatus = "cancelled" if manifest.on_timeout == "cancel" else "failed"
    begin_closing(tick, status, error=ErrorInfo(type="RunTimeout", message=message, retryable=False), reason=message)
