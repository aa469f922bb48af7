"""What the memory store does for runs that start, ask and hear of other runs."""

from collections.abc import Iterable

from ductor.journal.child_reports import ChildReport, nothing_to_undo, report_message
from ductor.journal.clock import Clock
from ductor.journal.commit import Commit, NewRun, SentControl
from ductor.journal.memory_messages import MemoryMessages
from ductor.journal.memory_rows import RunRows
from ductor.journal.records import Control, Transition
from ductor.journal.sorted_items import SortedItems


class MemoryChildren(MemoryMessages):
    """New runs and controls that ride in another run's commit, and which run started which."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._start_keys: dict[tuple[str, str, str], str] = {}
        self._by_parent: dict[str, SortedItems[str]] = {}
        self._by_root: dict[str, SortedItems[str]] = {}

    def _start_runs(self, commit: Commit) -> None:
        """The children of a commit that has won."""
        for new in commit.new_runs:
            if new.run_id in self._runs:
                continue
            owner = self._key_owner(new)
            if owner == new.run_id:
                self._start_run(new, commit)
            else:
                self._refuse_run(new, owner)

    def _start_run(self, new: NewRun, commit: Commit) -> None:
        run = self._runs[new.run_id] = RunRows(new.run_id, new.start, new.at_us)
        transition = Transition(
            run_id=new.run_id,
            version=1,
            commit_id=commit.commit_id,
            at_us=new.at_us,
            events=new.events,
            hash=new.hash,
        )
        run.add_transition(transition)
        run.add_payloads(new.payloads)
        run.due_at_us = new.due_at_us
        self._run_started(run, transition)

    def _run_started(self, run: RunRows, transition: Transition) -> None:
        """Index a run that begins with this row."""
        raise NotImplementedError

    def _key_owner(self, new: NewRun) -> str:
        """Whose the key of a new run is, from now on. A step that starts a child anew takes the key over from the child
        that it has started before, once that has ended. A run that continues another one has its key already."""
        if new.start.key is None or new.start.chain_run_id is not None:
            return new.run_id
        place = (new.start.tenant, new.start.definition, new.start.key)
        before = self._runs.get(self._start_keys.get(place, ""))
        is_handed_on = before is not None and before.is_closed and _is_same_child(before, new)
        if place not in self._start_keys or is_handed_on:
            self._start_keys[place] = new.run_id
        return self._start_keys[place]

    def _refuse_run(self, new: NewRun, owner: str) -> None:
        parent_run_id = new.start.parent_run_id
        if parent_run_id is None:
            return
        report = ChildReport(run_id=new.run_id, status="refused", owner=owner)
        message = report_message(report, new.start.parent_node)
        if message.id not in self._messages_of(parent_run_id).receipts:
            self._add_message(parent_run_id, message, self._clock.now_us(), is_delivered=True)

    def _index_lineage(self, run: RunRows) -> None:
        for index, run_id in ((self._by_parent, run.head.parent_run_id), (self._by_root, run.head.root_run_id)):
            if run_id is not None:
                index.setdefault(run_id, SortedItems()).add(run.head.run_id)

    def _children_of(self, parent_run_ids: Iterable[str]) -> SortedItems[str]:
        """Ids of the runs that these have started."""
        found: SortedItems[str] = SortedItems()
        for parent_run_id in parent_run_ids:
            for run_id in self._by_parent.get(parent_run_id, SortedItems[str]()).ascending():
                found.add(run_id)
        return found

    def _send_controls(self, sender: RunRows, sent: Iterable[SentControl]) -> None:
        for control in sent:
            run = self._runs.get(control.run_id)
            if run is None:
                self._answer_for_nobody(sender.head.run_id, control)
                continue
            if run.head.tenant != sender.head.tenant or control.request_id in run.controls:
                continue
            if run.is_continued or not run.is_closed or control.kind == "compensate":
                run.add_control(
                    Control(
                        run_id=control.run_id,
                        request_id=control.request_id,
                        kind=control.kind,
                        arguments=control.arguments,
                        by=control.by,
                        requested_at_us=self._clock.now_us(),
                    )
                )
                self._index_inputs(control.run_id, run)

    def _answer_for_nobody(self, sender_run_id: str, control: SentControl) -> None:
        answer = nothing_to_undo(control)
        if answer is not None and answer.id not in self._messages_of(sender_run_id).receipts:
            self._add_message(sender_run_id, answer, self._clock.now_us(), is_delivered=True)

    def _index_inputs(self, run_id: str, run: RunRows) -> None:
        """Note whether something waits for the run."""
        raise NotImplementedError


def _is_same_child(before: RunRows, new: NewRun) -> bool:
    start = new.start
    return (
        start.parent_run_id is not None
        and before.head.parent_run_id == start.parent_run_id
        and before.head.parent_node == start.parent_node
    )
