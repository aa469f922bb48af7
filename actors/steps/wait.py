"""`wait`: parks until a time comes, or a signal or an event arrives."""

from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

from ductor.actors.steps.behaviour import Parked
from ductor.actors.tick.activation import StateActivation
from ductor.actors.tick.parking import hear_event, park, time_out
from ductor.actors.tick.settle import fail, succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.durations import TimeFormatError, parse_duration_ns, parse_timestamp_us
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.wait import WaitStep
from ductor.definitions.values import JsonValue
from ductor.journal.events import ErrorInfo, Message


class WaitBehaviour(Parked):
    """Six forms. A time in the past fires at once; the output is the payload of what came, null for a time."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Park for whichever of the six it is."""
        step = _step(node)
        if step.signal_name is not None:
            park(tick, node, "signal", names=(f"signal:{step.signal_name}",))
        elif step.event is not None:
            hear_event(tick, node, 0, step.event, node.correlations.get("match"), lookback_ms=step.lookback_ms)
            park(tick, node, "event", names=(f"event:{step.event}",))
        else:
            _park_until(tick, node, step)

    def hears(self, tick: Tick, node: ProgramNode, message: Message, activation: StateActivation) -> bool:
        """Whether an event of the right name is the one waited for."""
        step = _step(node)
        if message.at_us < tick.node_state(node).parked_at_us - step.lookback_ms * 1_000:
            return False
        match = node.expressions.get("match")
        return match is None or match.evaluate_boolean(activation)

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """It came."""
        output = tick.state.value(message.payload, message.payload_ref)
        succeed(tick, node, "success", output, inline=message.payload, ref=message.payload_ref)

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """The time waited for has come, or the time to wait is over."""
        state = tick.node_state(node)
        goal_us = state.data if state.waiting == "timer" else None
        if isinstance(goal_us, int) and tick.now_us >= goal_us + tick.state.timers.shifted_us:
            succeed(tick, node, "success", None)
        else:
            time_out(tick, node)


def _step(node: ProgramNode) -> WaitStep:
    assert isinstance(node.step, WaitStep)
    return node.step


def _park_until(tick: Tick, node: ProgramNode, step: WaitStep) -> None:
    try:
        goal_us, is_absolute = _goal(tick, node, step)
    except TimeFormatError as error:
        fail(tick, node, ErrorInfo(type="ExpressionError", message=f"step {node.ref}: {error}", retryable=False))
        return
    if goal_us <= tick.now_us:
        succeed(tick, node, "success", None)
        return
    # kept without the pauses so far, as the timers keep relative deadlines
    data = goal_us if is_absolute else goal_us - tick.state.timers.shifted_us
    park(tick, node, "timer", until_us=goal_us, until_is_absolute=is_absolute, data=data)


def _goal(tick: Tick, node: ProgramNode, step: WaitStep) -> tuple[int, bool]:
    """When the wait is over, and whether that moment is fixed."""
    if step.duration_ms is not None:
        return tick.now_us + step.duration_ms * 1_000, False
    if step.until_us is not None:
        return step.until_us, True
    if step.cron is not None:
        return next_time_us(step.cron, step.timezone, tick.now_us), True
    return _evaluated_goal(tick, node.expressions["until_expr"].evaluate(tick.activation))


def _evaluated_goal(tick: Tick, value: JsonValue) -> tuple[int, bool]:
    if not isinstance(value, str):
        raise TimeFormatError(
            str(value), "is neither a timestamp nor a duration", "`until_expr` must give one of them."
        )
    if value[:1].isdigit() and "T" in value:
        return parse_timestamp_us(value), True
    return tick.now_us + parse_duration_ns(value) // 1_000, False


def next_time_us(cron: str, timezone: str, after_us: int) -> int:
    """The first moment after `after_us` that fits a cron expression in a time zone; daylight saving time is right."""
    after = datetime.fromtimestamp(after_us / 1_000_000, ZoneInfo(timezone))
    return round(next(CronSim(cron, after)).timestamp()) * 1_000_000
