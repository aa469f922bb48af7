"""`wait`: parks until a time comes, or a signal or an event arrives."""

from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

from ductor.actors.steps.behaviour import Parked
from ductor.actors.tick.activation import StateActivation
from ductor.actors.tick.event_waits import hear_event, heard_since_us
from ductor.actors.tick.parking import park, time_out
from ductor.actors.tick.settle import fail, succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.durations import MAX_DURATION_MS, TimeFormatError, parse_duration_ns, parse_timestamp_us
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.wait import WaitStep
from ductor.definitions.values import JsonValue
from ductor.journal.events import ErrorInfo, Message, NodeParked
from ductor.journal.state import NodeState


class WaitBehaviour(Parked):
    """Six forms. A time in the past fires at once; the output is the payload of what came, null for a time.

    A node that waits for a time has one timer: for that time, its goal, or for its `timeout`, if that is earlier. Which
    one it is follows from the goal, kept in the node's data. A pause moves a timeout and a relative goal alike; it may
    move a timeout beyond a fixed goal, and the timer is then set to the goal.
    """

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

    def hears(
        self, tick: Tick, node: ProgramNode, message: Message, activation: StateActivation
    ) -> tuple[int, ...] | None:
        """Whether an event of the right name is the one waited for."""
        step = _step(node)
        if message.at_us < heard_since_us(tick.node_state(node).parked_at_us, step.lookback_ms):
            return None
        match = node.expressions.get("match")
        return () if match is None or match.evaluate_boolean(activation) else None

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """It came."""
        output = tick.state.value(message.payload, message.payload_ref)
        succeed(tick, node, "success", output, inline=message.payload, ref=message.payload_ref)

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """The time waited for has come, or the time to wait is over."""
        if ends_at_goal(tick.node_state(node)):
            succeed(tick, node, "success", None)
        else:
            time_out(tick, node)

    def on_resume(self, tick: Tick, node: ProgramNode) -> None:
        """A fixed goal stays where it is, and may come before the timeout now."""
        state = tick.node_state(node)
        goal = _kept_goal(state)
        if goal is None or not goal[1] or goal[0] == state.until_us:
            return
        due_at_us = tick.state.timers.due_at_us(node.ref)
        if due_at_us is not None and goal[0] <= due_at_us:
            until = NodeParked(
                node=node.ref, waiting="timer", until_us=goal[0], until_is_absolute=True, data=state.data
            )
            tick.emit(until)


def ends_at_goal(state: NodeState) -> bool:
    """Whether the timer of a parked wait is for the time that it waits for, and not for its `timeout`."""
    goal = _kept_goal(state)
    return goal is not None and goal[0] == state.until_us


def _step(node: ProgramNode) -> WaitStep:
    assert isinstance(node.step, WaitStep)
    return node.step


def _park_until(tick: Tick, node: ProgramNode, step: WaitStep) -> None:
    try:
        goal_us, is_absolute = _goal(tick, node, step)
    except TimeFormatError as error:
        message = f"step {node.ref}, `{'until_expr' if step.cron is None else 'cron'}`: {error}"
        fail(tick, node, ErrorInfo(type="InvalidTime", message=message, retryable=False))
        return
    if goal_us <= tick.now_us:
        succeed(tick, node, "success", None)
        return
    data: JsonValue = {"goal_at_us": goal_us, "is_absolute": is_absolute}
    park(tick, node, "timer", until_us=goal_us, until_is_absolute=is_absolute, data=data)


def _kept_goal(state: NodeState) -> tuple[int, bool] | None:
    """The time waited for as it was when the node parked, and whether it is fixed; None for a signal or an event."""
    if state.waiting != "timer":
        return None
    data = state.data
    assert isinstance(data, dict)
    goal_us = data["goal_at_us"]
    assert isinstance(goal_us, int)
    return goal_us, data["is_absolute"] is True


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
    if value[4:5] == "-":  # after the year; a duration has its sign in front
        return parse_timestamp_us(value), True
    duration_us = -(-parse_duration_ns(value) // 1_000)  # rounded up: never early
    if duration_us > MAX_DURATION_MS * 1_000:
        raise TimeFormatError(value, "is longer than ten years", f"The longest duration is {MAX_DURATION_MS} ms.")
    return tick.now_us + duration_us, False


def next_time_us(cron: str, timezone: str, after_us: int) -> int:
    """The first moment after `after_us` that fits a cron expression in a time zone.

    Daylight saving time as Debian's cron has it: a time of day that a gap leaves out comes right after the gap, one
    that comes twice is taken the first time; expressions of every minute or every hour just go on.
    """
    after = datetime.fromtimestamp(after_us / 1_000_000, ZoneInfo(timezone))
    for fitting in CronSim(cron, after):
        # a time of day that comes twice is looked for on the wall clock: its first coming may be over
        if (fitting_us := round(fitting.timestamp()) * 1_000_000) > after_us:
            return fitting_us
    raise TimeFormatError(cron, "never comes in 50 years", "Name a day that exists.")
