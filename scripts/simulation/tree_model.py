"""A second opinion on runs that start runs, over all of them together, told by their journals in the order of commits.

Rule *tree*: a child run exists exactly where a row says that it was started, and is what that row says; its end and the
checkpoint that its parent waits for are told to the parent with the row that reaches them, once, and taken up at most
once, as they were. Who ends badly, or withdraws a step, asks the children concerned to stop with the same row; who
outlives its parent, and what nobody waits for when its parent completes, is left alone.

A chain of runs that continue each other counts as one run here, known by its first.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.journal.child_reports import report_message_id
from ductor.journal.commit import Commit
from ductor.journal.events import (
    AnyEvent,
    CheckpointReached,
    ChildReported,
    ChildStarted,
    NodeSettled,
    RunClosing,
    RunContinued,
    RunEnded,
    RunReopened,
    RunStarted,
)
from scripts.simulation.database import SimulatedDatabase

Report = Callable[[str, str], None]

ASKED_BY: Final = "run:"
"""Begins the name of who asks for something, where it is a run."""


class Child(msgspec.Struct):
    """A run that another one has started.

    Attributes:
        parent: the run whose row says so, a member of its chain.
        waits_for: what the parent is told of, as the child's first row says.
        status, output, output_hash: of its first end.
        told: kinds of reports that the parent has taken up.
    """

    parent: str
    started: ChildStarted
    exists: bool = False
    waits_for: str = ""
    status: str = ""
    output: object = None
    output_hash: str = ""
    checkpoints: set[str] = msgspec.field(default_factory=set)
    told: set[str] = msgspec.field(default_factory=set)


class Member(msgspec.Struct):
    """A run, as its children see it.

    Attributes:
        first: the first run of its chain.
        epoch: how often it has been reopened.
        open: children that end with it, and have not told their end, with the nodes that started them.
        awaited: nodes that wait for a child run.
        closing: how it has decided to end.
        is_only_undone: with this row it has been reopened to be undone, and for nothing else.
    """

    first: str
    tenant: str
    depth: int
    root: str
    parent: str = ""
    epoch: int = 0
    open: dict[str, str] = msgspec.field(default_factory=dict)
    awaited: dict[str, str] = msgspec.field(default_factory=dict)
    closing: RunClosing | None = None
    is_only_undone: bool = False


class TreeModel:
    """See the module's docstring. `report` takes the run and what is wrong."""

    def __init__(self, database: SimulatedDatabase, report: Report) -> None:
        self._database, self._report = database, report
        self.members: dict[str, Member] = {}
        self.children: dict[str, Child] = {}
        self._stopped: set[tuple[str, str]] = set()
        """Pairs of a child and a run that had a reason to stop it."""

    def row(self, commit: Commit, events: Sequence[AnyEvent]) -> None:
        """A row has become durable, and with it all that its commit wrote."""
        run_id = commit.run_id
        for event in events:
            if isinstance(event, RunStarted):
                self._begins(run_id, event)
            elif run_id in self.members:
                self._goes_on(run_id, self.members[run_id], event)
        if run_id in self.members:
            self.members[run_id].is_only_undone = False

    # --- how runs begin -----------------------------------------------------------------------------------------------

    def _begins(self, run_id: str, event: RunStarted) -> None:
        first = event.chain_run_id or run_id
        root = event.root_run_id or run_id
        member = Member(first=first, tenant=event.tenant, depth=event.depth, root=root)
        self.members[run_id] = member
        before = self.members.get(event.continued_from_run_id or "")
        if before is not None:
            member.open, member.parent = dict(before.open), before.parent
            told = {child.run_id: child.node for child in event.open_children}
            self._expect(run_id, told == before.open, f"it takes over the children {told}, and {before.open} are open")
        elif event.parent_run_id is not None:
            self._begins_as_child(run_id, event)

    def _begins_as_child(self, run_id: str, event: RunStarted) -> None:
        child, parent = self.children.get(run_id), self.members.get(event.parent_run_id or "")
        if child is None or parent is None or child.parent != event.parent_run_id:
            self._report(run_id, f"it is a child of {event.parent_run_id}, whose journal does not say so")
            return
        started = child.started
        self._expect(run_id, not child.exists, "it is started twice")
        child.exists, child.waits_for = True, event.parent_waits_for
        self.members[run_id].parent = child.parent
        depth = 0 if started.is_abandoned else parent.depth + 1
        is_as_told = (
            (event.parent_node, event.parent_generation) == (started.node, started.generation)
            and (event.definition, event.manifest_hash) == (started.definition, started.manifest_hash)
            and (event.body, event.tenant) == (started.body, parent.tenant)
            and (event.depth, event.root_run_id) == (depth, parent.root)
        )
        self._expect(run_id, is_as_told, f"{event} is not what {started} says")

    # --- what they do -------------------------------------------------------------------------------------------------

    def _goes_on(self, run_id: str, member: Member, event: AnyEvent) -> None:
        match event:
            case ChildStarted():
                self._starts(run_id, member, event)
            case ChildReported():
                self._hears(run_id, member, event)
            case CheckpointReached() if member.first in self.children:
                self.children[member.first].checkpoints.add(event.checkpoint)
                self._expect_told(run_id, self.children[member.first], event.checkpoint)
            case NodeSettled():
                self._settles(run_id, member, event)
            case RunReopened():
                member.epoch += 1
                member.closing, member.is_only_undone = None, not event.nodes
            case RunClosing():
                self._closes(run_id, member, event)
            case RunEnded():
                self._ends(run_id, member, event)
            case RunContinued():
                self._expect(run_id, not member.awaited, f"it is continued while {sorted(member.awaited)} wait")

    def _starts(self, run_id: str, member: Member, event: ChildStarted) -> None:
        self._expect(run_id, event.run_id not in self.children, f"{event.run_id} is started twice")
        self.children[event.run_id] = Child(run_id, event)
        if not event.is_abandoned:
            member.open[event.run_id] = event.node
        member.awaited[event.node] = event.run_id
        if not self._database.version(event.run_id) and not self._database.has_message(
            run_id, report_message_id(event.run_id)
        ):
            self._report(run_id, f"child run {event.run_id} does not exist, and nobody says why")

    def _hears(self, run_id: str, member: Member, event: ChildReported) -> None:
        child = self.children.get(event.run_id)
        if child is None or self.members[child.parent].first != member.first:
            self._report(run_id, f"{event.run_id} reports, and is no child of this run")
            return
        kind = f"undone {event.node} {event.generation}" if event.node.endswith(UNDO_SUFFIX) else event.status
        if kind not in {"checkpoint", event.status}:
            is_true = bool(child.status) if child.exists else not event.compensated
            self._expect(run_id, is_true, f"{event.run_id} says what it has undone, and has not ended")
        elif event.status == "checkpoint":
            self._expect(run_id, event.checkpoint in child.checkpoints, f"{event.run_id} never came to its checkpoint")
            if member.awaited.get(event.node) == event.run_id:
                del member.awaited[event.node]  # what the step waited for has come; the child goes on beside it
        else:
            kind = "end"
            is_true = event.status == (child.status if child.exists else "refused")
            if event.status == "completed":
                output_hash = "" if event.output_ref is None else event.output_ref.hash
                is_true &= (event.output, output_hash) == (child.output, child.output_hash)
            self._expect(run_id, is_true, f"{event.run_id} tells {event}, and ended as {child.status}")
            member.open.pop(event.run_id, None)
        self._expect(run_id, kind not in child.told, f"{event.run_id} tells `{kind}` twice")
        child.told.add(kind)

    def _settles(self, run_id: str, member: Member, event: NodeSettled) -> None:
        child = member.awaited.pop(event.node, "")
        if event.status == "cancelled" and event.outcome == "withdrawn" and child in member.open:
            self._expect_asked(run_id, member, child, "cancel")

    def _closes(self, run_id: str, member: Member, event: RunClosing) -> None:
        member.closing = event
        if not member.is_only_undone:
            self._stops_children(run_id, member, event.status)

    def _ends(self, run_id: str, member: Member, event: RunEnded) -> None:
        if member.closing is None or event.status == "terminated":
            self._stops_children(run_id, member, event.status)
        closing = member.closing if member.closing is not None and member.closing.status == event.status else event
        child = self.children.get(member.first)
        if child is None or child.status:
            return  # nobody is told of what it does after a redrive
        child.status, child.output = event.status, closing.output
        child.output_hash = "" if closing.output_ref is None else closing.output_ref.hash
        self._expect_told(run_id, child, "")

    # --- what is told and asked ---------------------------------------------------------------------------------------

    def _expect_told(self, run_id: str, child: Child, checkpoint: str) -> None:
        """The parent has the message, with the row, if it wants to know."""
        wants = child.waits_for == f"checkpoint:{checkpoint}" if checkpoint else child.waits_for != ""
        message_id = report_message_id(child.started.run_id, is_checkpoint=bool(checkpoint))
        if wants and not child.status and checkpoint:
            self._expect(
                run_id, self._database.has_message(child.parent, message_id), f"its parent is not told of {checkpoint}"
            )
        elif not checkpoint:
            is_told = self._database.has_message(child.parent, message_id)
            self._expect(
                run_id, is_told == wants, f"its parent wants to know of its end: {wants}, and is told: {is_told}"
            )

    def _stops_children(self, run_id: str, member: Member, status: str) -> None:
        for child, node in member.open.items():
            if status != "completed" or member.awaited.get(node) == child:
                self._expect_asked(run_id, member, child, "terminate" if status == "terminated" else "cancel")

    def _expect_asked(self, run_id: str, member: Member, child: str, kind: str) -> None:
        """The child has been asked to stop, if it was open still."""
        self._stopped.add((child, run_id))
        if not self._database.is_open(child):
            return
        request_id = f"run:{run_id}/{kind}/{member.epoch}"
        is_asked = self._database.has_request(child, request_id)
        self._expect(run_id, is_asked, f"it does not ask its child {child} to {kind}")

    def check(self) -> None:
        """Once all is over: nobody was stopped without a reason."""
        for run_id in self._database.run_ids():
            for control in self._database.controls(run_id):
                if control.by.startswith(ASKED_BY) and control.kind in {"cancel", "terminate"}:
                    pair = (self.members[run_id].first, control.by.removeprefix(ASKED_BY))
                    self._expect(run_id, pair in self._stopped, f"{control.by} had no reason to {control.kind} it")

    def _expect(self, run_id: str, holds: bool, what: str) -> None:
        if not holds:
            self._report(run_id, what)
