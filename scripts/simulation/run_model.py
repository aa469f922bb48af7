"""A second opinion on journals: what the events of one run may say, told apart from the fold.

The model is fed each row at the moment it becomes durable and keeps just what the rules below need. It shares no code
with fold or tick. Rules, each by the name under which it is reported:

- *versions*, *time*: versions are dense, and time within a run never goes back.
- *generation*: an applied result is of the attempt in flight; each attempt's number is one more than the last.
- *dependencies*: a step starts only when its join says so, once, and not while the run is paused or ending.
- *settled*: a settled step stays as it is, until a redrive puts it back.
- *timers*: what fires was armed for that moment, is due, fires once, and not during a pause.
- *messages*: each is received once; what is taken was received, and is taken once.
- *controls*: each request is taken up once.
- *children*: see `scripts.simulation.scatter_model`; of child runs `scripts.simulation.tree_model`.
- *undos*: see `scripts.simulation.undo_model`.
- *terminal*: nothing follows the end of a run but a redrive.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.definitions.program import Program
from ductor.definitions.steps import SubworkflowStep
from ductor.journal.child_reports import report_message_id
from ductor.journal.events import (
    RUN_LEASE,
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ChildReported,
    ChildStarted,
    CompensationRequested,
    CompensationsStarted,
    ContinueRequested,
    ControlReceived,
    DefersStarted,
    LeaseGranted,
    MessageReceived,
    MessageTaken,
    NodeParked,
    NodeSettled,
    RunClosing,
    RunContinued,
    RunEnded,
    RunPaused,
    RunReopened,
    RunResumed,
    RunStarted,
    ScatterStarted,
    TimerFired,
)
from ductor.journal.lease_store import message_id as lease_message_id
from scripts.simulation.scatter_model import ScatterModel, is_child
from scripts.simulation.undo_model import UndoModel

OWN_ANSWERS = frozenset({"digest", "lease", "child"})
"""Messages whose ids are unique in a run, but not in a chain: they answer what the run itself has begun."""

AFTER_THE_END = ControlReceived | CompensationRequested | RunReopened
"""What may follow the end of a run: somebody asks for more of it, which is refused, or reopens it."""

PAUSING = frozenset({"retry", "repeat"})


class NodeModel(msgspec.Struct):
    """What is known of a step.

    Attributes:
        edges: of each source that has settled, whether it led here.
        child: the child run that the step waits for.
    """

    status: str = "pending"
    generation: int = 0
    edges: dict[str, bool] = msgspec.field(default_factory=dict)
    child: str = ""


class Timer(msgspec.Struct):
    """An armed timer."""

    due_at_us: int
    is_absolute: bool = False


class RunModel:
    """See the module's docstring. `report` takes rule and what is wrong."""

    def __init__(self, program: Program, report: Callable[[str, str], None]) -> None:
        self._program, self._report = program, report
        self._nodes: dict[str, NodeModel] = {}
        self._scatters = ScatterModel(lambda what: report("children", what))
        self._undos = UndoModel(program, lambda what: report("undos", what))
        self._timers: dict[str, Timer] = {}
        self._version = 0
        self._at_us = 0
        self._is_paused = False
        self._is_ended = False
        self._is_closing = False
        self._is_continuing = False
        self._defers_started = False
        self.taken: set[str] = set()
        self.received: dict[str, str] = {}
        self.inbox: set[str] = set()
        self.controls: set[str] = set()
        self.results: list[AttemptFinished] = []
        self.dispatched: dict[str, int] = {}

    def row(self, version: int, at_us: int, events: Sequence[AnyEvent]) -> None:
        """Take in the next row."""
        if version != self._version + 1:
            self._report("versions", f"version {version} follows {self._version}")
        if at_us < self._at_us:
            self._report("time", f"version {version} is earlier than the one before")
        self._version, self._at_us = version, at_us
        for event in events:
            if self._is_ended and not isinstance(event, AFTER_THE_END):
                self._report("terminal", f"version {version} has {_name(event)} after the end")
            if not isinstance(event, RunReopened):
                self._undos.follow(event)
            case = self._cases.get(type(event))
            if case is not None:
                case(self, event)
        self._scatters.end_row(is_run_ending=self._is_closing)

    # --- the run ------------------------------------------------------------------------------------------------------

    def _started(self, event: RunStarted) -> None:
        if self._version != 1:
            self._report("versions", f"version {self._version} starts the run again")
        self._arm_timeout(event.timeout_at_us)

    def _paused(self, _event: RunPaused) -> None:
        self._is_paused = True

    def _resumed(self, event: RunResumed) -> None:
        if not self._is_paused:
            self._report("timers", "a run is resumed that was not paused")
        self._is_paused = False
        for timer in self._timers.values():
            if not timer.is_absolute:
                timer.due_at_us += event.paused_us

    def _closing(self, event: RunClosing) -> None:
        self._is_closing = True
        self._timers.pop("@timeout", None)
        self._timers.pop("@continue", None)
        if event.grace_until_us is not None:
            self._timers["@grace"] = Timer(event.grace_until_us)

    def _undoing(self, _event: CompensationsStarted) -> None:
        self._timers.pop("@grace", None)

    def _defers(self, _event: DefersStarted) -> None:
        self._defers_started = True
        self._timers.pop("@grace", None)

    def _ended(self, _event: RunEnded | RunContinued) -> None:
        open_nodes = sorted(ref for ref, node in self._nodes.items() if node.status in {"running", "waiting"})
        if open_nodes:
            self._report("terminal", f"the run ends with open steps: {', '.join(open_nodes)}")
        self._is_ended, self._is_paused = True, False
        self._timers.clear()
        self.inbox.clear()

    def _continue(self, event: ContinueRequested) -> None:
        if self._is_closing:
            self._report("terminal", "a run is to be continued that is ending")
        self._is_continuing = True
        self._timers["@continue"] = Timer(event.until_us)

    def _continued(self, _event: RunContinued) -> None:
        if not self._is_continuing:
            self._report("terminal", "a run is continued that nobody has asked to")
        self._ended(_event)

    def _reopened(self, event: RunReopened) -> None:
        if not self._is_ended:
            self._report("terminal", "a run is reopened that has not ended")
        self._is_ended = self._is_closing = self._is_continuing = self._defers_started = False
        reset = {node.node: node for node in event.nodes}
        children = self._scatters.reset(reset)
        for ref in (*children, *self._undos.reopened({*reset, *children})):
            self._node(ref).status = "pending"
        for ref in reset:
            node = self._node(ref)
            node.status = "pending"
            node.edges = {source: taken for source, taken in node.edges.items() if source not in reset}
        self._arm_timeout(event.timeout_at_us)

    def _arm_timeout(self, due_at_us: int | None) -> None:
        if due_at_us is not None:
            self._timers["@timeout"] = Timer(due_at_us)

    # --- inputs -------------------------------------------------------------------------------------------------------

    def _control(self, event: ControlReceived) -> None:
        if event.request_id in self.controls:
            self._report("controls", f"request {event.request_id} is taken up twice")
        self.controls.add(event.request_id)

    def _message(self, event: MessageReceived) -> None:
        message = event.message
        if message.id in self.received:
            self._report("messages", f"message {message.id} is received twice")
        if self._is_paused:
            self._report("messages", f"message {message.id} is received during a pause")
        self.received[message.id] = message.kind
        self.inbox.add(message.id)

    def _taken(self, event: MessageTaken) -> None:
        if event.message_id not in self.inbox:
            self._report("messages", f"message {event.message_id} is taken and does not wait")
        self.inbox.discard(event.message_id)
        if self.received.get(event.message_id) not in OWN_ANSWERS:
            self.taken.add(event.message_id)
        for ref in event.nodes:
            if self._node(ref).status != "waiting":
                self._report("messages", f"message {event.message_id} goes to {ref}, which does not wait")

    def _timer(self, event: TimerFired) -> None:
        timer = self._timers.pop(event.key, None)
        if timer is None or timer.due_at_us != event.due_at_us:
            armed = "not armed" if timer is None else f"armed for {timer.due_at_us}"
            self._report("timers", f"timer {event.key} fires for {event.due_at_us}, it is {armed}")
        elif event.due_at_us > self._at_us:
            self._report("timers", f"timer {event.key} fires {event.due_at_us - self._at_us} us early")
        elif self._is_paused:
            self._report("timers", f"timer {event.key} fires during a pause")

    # --- steps --------------------------------------------------------------------------------------------------------

    def _dispatch(self, event: AttemptDispatched) -> None:
        node = self._node(event.node)
        if event.generation != node.generation + 1:
            self._report("generation", f"{event.node}: attempt {event.generation} follows {node.generation}")
        self._begin(event.node, node)
        node.status, node.generation = "running", event.generation
        self.dispatched[event.node] = event.generation

    def _finish(self, event: AttemptFinished) -> None:
        node = self._node(event.node)
        if node.status != "running" or node.generation != event.generation:
            told = f"{event.node}: a result of attempt {event.generation} is applied"
            self._report("generation", f"{told}; the step is {node.status} at {node.generation}")
        node.status = "between"
        self.results.append(event)

    def _park(self, event: NodeParked) -> None:
        node = self._node(event.node)
        if event.node == RUN_LEASE:
            self._check_run_may_ask()
        elif event.waiting not in PAUSING:
            self._begin(event.node, node)
        elif node.status != "between":
            self._report("settled", f"{event.node} pauses between attempts, it is {node.status}")
        node.status = "waiting"
        self._timers.pop(event.node, None)
        if event.until_us is not None:
            self._timers[event.node] = Timer(event.until_us, event.until_is_absolute)

    def _check_run_may_ask(self) -> None:
        if any(node.status in {"running", "waiting"} for node in self._nodes.values()):
            self._report("dependencies", "the run asks for its lease when steps are under way")

    def _granted(self, event: LeaseGranted) -> None:
        if self._node(event.node).status != "waiting":
            self._report("settled", f"{event.node} is granted a lease, it is {self._node(event.node).status}")
        if self._is_paused:
            self._report("dependencies", f"{event.node} is granted a lease during a pause")
        message_id = lease_message_id(event.node, event.fence)
        if message_id in self.received:
            self._report("messages", f"message {message_id} is received twice")
        self.received[message_id] = "lease"  # the grant is what the message was taken up as
        self._timers.pop(event.node, None)
        if event.node == RUN_LEASE:
            del self._nodes[event.node]

    def _child_started(self, event: ChildStarted) -> None:
        node = self._node(event.node)
        if event.generation != node.generation + 1:
            self._report("generation", f"{event.node}: child {event.generation} follows {node.generation}")
        if event.iteration and node.status not in {"between", "waiting"}:
            self._report("settled", f"{event.node} goes another round, it is {node.status}")
        self._begin(event.node, node)
        step = self._program.node(event.node).step
        is_awaited = isinstance(step, SubworkflowStep) and step.mode == "sync"
        node.status, node.generation = ("waiting" if is_awaited else "between"), event.generation
        node.child = event.run_id if is_awaited else ""
        self._timers.pop(event.node, None)
        if event.until_us is not None:
            self._timers[event.node] = Timer(event.until_us)

    def _child_reported(self, event: ChildReported) -> None:
        node = self._node(event.node)
        if event.node.endswith(UNDO_SUFFIX):
            message_id = f"child:{event.run_id}:compensated:{event.generation}"
            if node.status != "waiting":
                self._report("settled", f"{event.node} hears of a child run, it is {node.status}")
        else:
            message_id = report_message_id(event.run_id, is_checkpoint=event.status == "checkpoint")
            if node.status == "waiting" and node.child == event.run_id:
                node.status, node.child = "between", ""
        if message_id in self.received:
            self._report("messages", f"message {message_id} is received twice")
        if self._is_paused:
            self._report("messages", f"message {message_id} is received during a pause")
        self.received[message_id] = "child"

    def _scatter(self, event: ScatterStarted) -> None:
        node = self._node(event.node)
        self._begin(event.node, node)
        node.status = "waiting"
        self._scatters.start(event)

    def _settle(self, event: NodeSettled) -> None:
        node = self._node(event.node)
        if node.status == "settled":
            self._report("settled", f"{event.node} settles twice")
        if event.node == RUN_LEASE:
            self._nodes.pop(event.node)
            self._timers.pop(event.node, None)
            return
        if node.status == "pending" and event.status in {"succeeded", "failed"}:
            self._begin(event.node, node)
        node.status, node.child = "settled", ""
        self._timers.pop(event.node, None)
        self._scatters.settle(event)
        for ref in event.taken:
            self._node(ref).edges[event.node] = True
        for ref in event.untaken:
            self._node(ref).edges[event.node] = False

    def _begin(self, ref: str, node: NodeModel) -> None:
        """The step starts, or goes on with a further attempt."""
        if self._is_paused:
            self._report("dependencies", f"{ref} starts during a pause")
        if node.status == "settled":
            self._report("settled", f"{ref} starts and has settled")
        if node.status != "pending":
            if node.status == "running":
                self._report("dependencies", f"{ref} starts and runs already")
            return
        if ref.endswith(UNDO_SUFFIX):
            return
        if is_child(ref):
            self._begin_child(ref)
            return
        program = self._program.nodes[ref]
        if program.is_defer:
            if not self._defers_started:
                self._report("dependencies", f"{ref} starts before the deferred steps may")
            return
        if self._is_closing or self._is_continuing:
            self._report("dependencies", f"{ref} starts while the run is ending")
        if not _join_holds(program.step.join, len(program.predecessors), list(node.edges.values())):
            self._report("dependencies", f"{ref} starts and its join does not hold: {node.edges}")

    def _begin_child(self, ref: str) -> None:
        if self._is_closing:
            self._report("dependencies", f"{ref} starts while the run is ending")
        pause = self._scatters.begin(ref)
        if pause is not None:
            self._timers[pause[0]] = Timer(self._at_us + pause[1])

    def _node(self, ref: str) -> NodeModel:
        return self._nodes.setdefault(ref, NodeModel())

    _cases: ClassVar[dict[type[Any], Callable[["RunModel", Any], None]]] = {
        RunStarted: _started,
        RunPaused: _paused,
        RunResumed: _resumed,
        RunClosing: _closing,
        CompensationsStarted: _undoing,
        DefersStarted: _defers,
        RunEnded: _ended,
        RunReopened: _reopened,
        ContinueRequested: _continue,
        RunContinued: _continued,
        ControlReceived: _control,
        MessageReceived: _message,
        MessageTaken: _taken,
        TimerFired: _timer,
        LeaseGranted: _granted,
        AttemptDispatched: _dispatch,
        AttemptFinished: _finish,
        NodeParked: _park,
        ChildStarted: _child_started,
        ChildReported: _child_reported,
        NodeSettled: _settle,
        ScatterStarted: _scatter,
    }


def _join_holds(join: str | int, sources: int, settled: Sequence[bool]) -> bool:
    if not sources:
        return True
    if join == "all":
        return len(settled) == sources and any(settled)
    if join == "every":
        return len(settled) == sources and all(settled)
    return sum(settled) >= (1 if join == "any" else int(join))


def _name(event: AnyEvent) -> str:
    return type(event).__name__
