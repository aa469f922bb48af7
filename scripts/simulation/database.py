"""The one database of a campaign: the memory store, seen as PostgreSQL would be, and watched from inside.

What the memory store does not do by itself:
- *Rows are decided on, and take their places, before others see them* (`ductor`'s own rows of runs apart, which are
  judged one after another). A later place may be seen first, and a run be continued or end meanwhile: see `late_rows`.
- *Every row is shown to a watcher* at the moment it becomes durable, with the database's time.
- *What is removed is kept aside* for those who judge, and compared with what is left. Rows that a compacted row stands
  for may go sooner than they really do, as campaigns are short.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, Never, TypeVar

from ductor.actors.compaction import COMPACTED_ROWS_KEPT_MS
from ductor.actors.correlation_keys import key_text, value_at
from ductor.journal.admission import event_message_id
from ductor.journal.clock import Clock
from ductor.journal.commit import Appended, BusEvent, Commit, CommitAnswer, Conflict, NewRun
from ductor.journal.compaction_store import MAX_REMOVED_ROWS
from ductor.journal.events import Message
from ductor.journal.memory_rows import RunRows
from ductor.journal.records import Control, HostRecord, Transition
from scripts.simulation.compaction_model import Removals
from scripts.simulation.late_rows import Finish, LateRowsStore

T = TypeVar("T")

REMOVED_SOONER_US: Final = (COMPACTED_ROWS_KEPT_MS - 3_000) * 1_000
"""Rows that another one stands for are kept for three seconds."""


class Place:
    """A place in the order of messages and events, taken at a time."""

    def __init__(self, position: int, at_us: int) -> None:
        self.position, self.at_us = position, at_us


class _Places:
    """Gives out places in order, or the one that is being filled."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.filling: Place | None = None

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self.filling is not None:
            return self.filling.position
        return next(self._numbers)


class DatabaseClock:
    """The database's clock, which is right by definition; while a late row is filled in, the time it began."""

    def __init__(self, clock: Clock, places: _Places) -> None:
        self._clock, self._places = clock, places

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        filling = self._places.filling
        return self._clock.now_us() if filling is None else filling.at_us


class SimulatedDatabase(LateRowsStore):
    """See the module's docstring.

    Attributes:
        watch: told of every commit that wrote a row.
        heard: told of all hosts, and of the time, when one of them has beaten.
        conflicts, resolved: version checks lost; commits that were sent again and found written already.
        removals: what compaction has removed.
    """

    def __init__(self, clock: Clock) -> None:
        self._places = _Places()
        super().__init__(DatabaseClock(clock, self._places))
        self._message_positions = self._event_positions = self._places  # type: ignore[assignment]
        self._is_open = True
        self.watch: Callable[[Commit], None] = lambda _commit: None
        self.heard: Callable[[Sequence[HostRecord], int], None] = lambda _hosts, _now_us: None
        self.conflicts = 0
        self.resolved = 0
        self.removals = Removals()

    def judge(self, commit: Commit) -> CommitAnswer:
        """Write a commit, or say why not."""
        self._batches += 1
        before = self.version(commit.run_id)
        new_runs = [new for new in commit.new_runs if not self.version(new.run_id)]
        answer = self._write(commit)
        if isinstance(answer, Conflict):
            self.conflicts += 1
        elif isinstance(answer, Appended) and commit.version:
            if self.version(commit.run_id) > before:
                self.watch(commit)
                for new in new_runs:
                    if self.version(new.run_id):
                        self.watch(_first_row(new, commit))
            else:
                self.resolved += 1
        return answer

    def call(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Carry out a read or a write at once, as one statement."""
        return at_once(getattr(self, name)(*arguments, **named))

    def begin_late(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Finish:
        """Carry a statement out whose rows others do not see until what is returned is called, which gives its answer
        or raises what it raised."""
        if name == "publish_event":
            place = Place(next(self._places), self._clock.now_us())
            return lambda: self._fill(place, name, arguments, named)
        try:
            return self.begin(name, arguments, self.call(name, arguments, named))
        except Exception as error:  # noqa: BLE001 - the caller gets it, with the answer
            return partial(_raise, error)

    def version(self, run_id: str) -> int:
        """The newest version of a run; 0 where there is none."""
        run = self._runs.get(run_id)
        return 0 if run is None else run.version

    def _fill(self, place: Place, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """What is written has the place and the time that were taken before."""
        self._places.filling = place
        try:
            return self.call(name, arguments, named)
        finally:
            self._places.filling = None

    def run_ids(self) -> list[str]:
        """All runs, in order of id."""
        return list(self._run_ids.ascending())

    def receipts(self, run_id: str) -> dict[str, str]:
        """What became of each message of a run, by its id."""
        messages = self._messages.get(run_id)
        return {} if messages is None else {key: one.disposition for key, one in messages.receipts.items()}

    def dispositions(self, run_id: str) -> dict[str, str]:
        """What became of each request to a run, by its id."""
        run = self._runs[run_id]
        found = {request_id: run.read_control(request_id) for request_id in run.controls}
        return {request_id: control.disposition for request_id, control in found.items() if control is not None}

    def chain_of(self, run_id: str) -> list[str]:
        """The runs of the chain that this one belongs to, in order."""
        return [head.run_id for head in self.call("chain", (run_id,), {"limit": 1_000_000})]

    def receipts_of_chain(self, run_id: str) -> dict[str, str]:
        """What became of each message that was sent to any run of a chain: what its last run says."""
        found: dict[str, str] = {}
        for member in self.chain_of(run_id):
            found |= self.receipts(member)
        return found

    def request_in_chain(self, run_id: str, request_id: str) -> tuple[str, str] | None:
        """The run of the chain that has a request, and what became of it there; None where none has it."""
        for member in reversed(self.chain_of(run_id)):
            disposition = self.dispositions(member).get(request_id)
            if disposition is not None:
                return member, disposition
        return None

    def controls(self, run_id: str) -> list[Control]:
        """All requests to a run."""
        run = self._runs[run_id]
        return [control for control in map(run.read_control, run.controls) if control is not None]

    def is_open(self, run_id: str) -> bool:
        """Whether a run, or the latest that continues it, has not ended."""
        following = list(self._following(run_id))
        return bool(following) and not following[-1].is_closed

    def has_message(self, run_id: str, message_id: str) -> bool:
        """Whether a message has come to a run, or to one that continues it."""
        stored = (self._messages.get(run.head.run_id) for run in self._following(run_id))
        return any(messages is not None and message_id in messages.receipts for messages in stored)

    def has_request(self, run_id: str, request_id: str) -> bool:
        """Whether a request has come to a run, or to one that continues it."""
        return any(request_id in run.controls for run in self._following(run_id))

    def _following(self, run_id: str) -> Iterator[RunRows]:
        """A run, and those that continue it."""
        run = self._runs.get(run_id)
        while run is not None:
            yield run
            run = self._runs.get(run.head.successor_run_id or "")

    def due_at_us(self, run_id: str) -> int | None:
        """The stored timer of a run."""
        return self._runs[run_id].due_at_us

    def payloads(self, run_id: str) -> dict[str, bytes]:
        """All large values that a run has ever had, by hash; a coordinator loads only those that it may need."""
        return self.removals.values(run_id) | self.payloads_left(run_id)

    def payloads_left(self, run_id: str) -> dict[str, bytes]:
        """All large values of a run that are still there, by hash."""
        return dict(self._runs[run_id].payloads)

    def rows(self, run_id: str) -> list[Transition]:
        """All rows that a run has ever had, in order."""
        return [*self.removals.rows(run_id), *self._runs[run_id].transitions]

    async def beat(self, host: HostRecord) -> Sequence[HostRecord]:
        """As the memory store, and watched."""
        hosts = await super().beat(host)
        self.heard(hosts, self._clock.now_us())
        return hosts

    async def remove_compacted_rows(self, run_id: str, *, before_us: int, limit: int = MAX_REMOVED_ROWS) -> int:
        """As the memory store, sooner, and watched."""
        run = self._runs[run_id]
        rows, values, before = list(run.transitions), dict(run.payloads), await self.load(run_id)
        removed = await super().remove_compacted_rows(run_id, before_us=before_us + REMOVED_SOONER_US, limit=limit)
        after = await self.load(run_id)
        if removed and before is not None and after is not None:
            gone = rows[: len(rows) - len(run.transitions)]
            gone_values = {hash: text for hash, text in values.items() if hash not in run.payloads}
            messages = self._messages.get(run_id)
            texts = [*(row.events for row in run.transitions), *run.attempts.values()]
            texts += messages.texts() if messages is not None else ()
            self.removals.removed(before, after, gone, gone_values, texts)
        return removed

    def waits(self, run_id: str) -> set[tuple[str, int]]:
        """Node and index of the waits that are filed for a run."""
        return {(node, index) for run, node, index in self._waits if run == run_id}

    def missed_events(self, run_id: str) -> list[str]:
        """Events that a wait of this run is filed for, and that were not brought to it."""
        rows = self._runs[run_id]
        tenant, receipts = rows.head.tenant, self.receipts(run_id)
        missed: list[str] = []
        for run, node, index in self._waits:
            if run != run_id:
                continue
            wait = self._waits[run, node, index]
            events: list[BusEvent] = self.call(
                "events_since", (tenant, wait.name, wait.since_us), {"after_position": 0, "limit": 1_000_000}
            )
            for event in events:
                found, value = value_at(event.payload, wait.key_path) if wait.key_path else (True, None)
                fits = found and (not wait.key_path or key_text(value) == wait.key_value)
                message_id = event_message_id(event.event_id)
                if fits and message_id not in receipts and not self._has_come_before(rows, "message", message_id):
                    missed.append(f"{event.event_id} for {node}/{index}")
        return missed

    def inbox_nodes(self, run_id: str) -> set[str]:
        """The nodes of a run that the inbox lists."""
        return {node for run, node in self._inbox if run == run_id}

    def unmatched(self) -> list[str]:
        """Events that nobody has finished matching."""
        return [event_id for _, event_id in self._unmatched]

    def has_event(self, tenant: str, event_id: str) -> bool:
        """Whether the tenant's bus keeps this event."""
        return (tenant, event_id) in self._events

    def _waiting_messages(self, run_id: str) -> tuple[Message, ...]:
        return tuple(sorted(super()._waiting_messages(run_id), key=lambda message: message.position))


def _first_row(new: NewRun, commit: Commit) -> Commit:
    """The first row of a run that another one's commit has started."""
    return Commit(
        run_id=new.run_id,
        version=1,
        commit_id=commit.commit_id,
        at_us=new.at_us,
        events=new.events,
        hash=new.hash,
        start=new.start,
        payloads=new.payloads,
    )


def _raise(error: Exception) -> Never:
    raise error


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits to its end."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise AssertionError("the memory store waited for something")
