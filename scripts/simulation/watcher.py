"""Watches every row at the moment it becomes durable: models of the runs, promises of dispatch, clocks, tenants."""

from collections.abc import Callable, Mapping

from ductor.definitions.compile import Compiled
from ductor.definitions.program import Program, load_program
from ductor.journal.codec import decode_events, decode_value
from ductor.journal.commit import Commit
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    MessageReceived,
    RunEnded,
    RunStarted,
    TimerFired,
)
from ductor.journal.ids import attempt_token
from scripts.simulation.handlers import Ledger
from scripts.simulation.lease_model import LeaseModel
from scripts.simulation.machines import World
from scripts.simulation.run_model import RunModel
from scripts.simulation.tree_model import TreeModel
from scripts.simulation.violations import Violation, Violations

EVENT_PREFIX = "event:"


class Watcher:
    """See the module's docstring.

    Attributes:
        models: of each run, by id; tenants: of each run.
        tree: which run started which.
        dispatched: tokens of attempts whose dispatch is durable.
        rows: how many there were.
    """

    def __init__(
        self, world: World, compiled: Mapping[str, Compiled], violations: Violations, clock_error_us: Callable[[], int]
    ) -> None:
        self._world, self._violations, self._clock_error_us = world, violations, clock_error_us
        self.programs: dict[str, Program] = {
            one.manifest_hash: load_program(one.manifest, places=one.places) for one in compiled.values()
        }
        self.models: dict[str, RunModel] = {}
        self.tenants: dict[str, str] = {}
        self.dispatched: set[str] = set()
        self.ended_ms: dict[str, list[int]] = {}
        self._leases = LeaseModel(lambda run_id, what: self.report(run_id, "leases", what))
        self.tree = TreeModel(world.database, lambda run_id, what: self.report(run_id, "tree", what))
        self.rows = 0

    def row(self, commit: Commit) -> None:
        """A row has become durable."""
        self.rows += 1
        self._world.loop.note(commit.hash)
        events = decode_events(commit.events, run_id=commit.run_id, version=commit.version)
        model = self._model(commit.run_id, events)
        if model is None:
            self.report(commit.run_id, "versions", f"version {commit.version} is the first row and starts nothing")
            return
        model.row(commit.version, commit.at_us, events)
        self._leases.row(commit.run_id, events)
        self.tree.row(commit, events)
        for event in events:
            self._look_at(commit, event)

    def report(self, run_id: str, rule: str, what: str) -> None:
        """Something is wrong."""
        self._violations.add(Violation(rule, what, run_id, self._world.elapsed_ms))

    def _model(self, run_id: str, events: list[AnyEvent]) -> RunModel | None:
        model = self.models.get(run_id)
        if model is None and isinstance(events[0], RunStarted):
            program = self.programs[events[0].manifest_hash].carried_out_by(events[0].body)
            self.tenants[run_id] = events[0].tenant
            model = self.models[run_id] = RunModel(program, lambda rule, what: self.report(run_id, rule, what))
        return model

    def _look_at(self, commit: Commit, event: AnyEvent) -> None:
        run_id = commit.run_id
        if isinstance(event, AttemptDispatched):
            self.dispatched.add(attempt_token(run_id, event.node, event.generation))
        elif isinstance(event, AttemptFinished) and event.outcome == "succeeded":
            self._look_at_result(commit, event, self._world.ledger)
        elif isinstance(event, RunEnded):
            self.ended_ms.setdefault(run_id, []).append(self._world.elapsed_ms)
        elif isinstance(event, TimerFired):
            early_us = event.due_at_us - self._world.clock.now_us()
            if early_us > self._clock_error_us():
                self.report(run_id, "timers", f"timer {event.key} fired {early_us} us early by the database's clock")
        elif isinstance(event, MessageReceived) and event.message.kind == "event":
            event_id = event.message.id.removeprefix(EVENT_PREFIX)
            if not self._world.database.has_event(self.tenants[run_id], event_id):
                self.report(run_id, "tenants", f"event {event_id} is not one of tenant {self.tenants[run_id]}")

    def _look_at_result(self, commit: Commit, event: AttemptFinished, ledger: Ledger) -> None:
        token = attempt_token(commit.run_id, event.node, event.generation)
        output = event.output
        if event.output_ref is not None:
            texts = [payload.text for payload in commit.payloads if payload.hash == event.output_ref.hash]
            stored = self._world.database.call("payload", (commit.run_id, event.output_ref.hash), {})
            text = texts[0] if texts else stored
            if text is None:
                self.report(commit.run_id, "payloads", f"the output of {token} is not stored")
                return
            output = decode_value(text)
        if output not in ledger.returned.get(token, []):
            self.report(commit.run_id, "results", f"no handler returned what was applied for {token}")
