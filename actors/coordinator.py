"""The coordinator: the actor of one run, the only writer of its journal.

```
            ┌──────── Wake, AttemptResult, TimerDue, Start ────────┐
            ▼                                                      │
  cold ──load──▶ idle ──drained──▶ compute ──events──▶ committing ─┘ more arrives meanwhile
   ▲              ▲                   │ nothing to decide     │
   │              └───────────────────┘        Appended ──────┴─▶ dispatch, then idle or ended
   └── Conflict: the state is thrown away, what is in hand is kept
```

Invariants:
- One commit in flight at most. What arrives meanwhile waits for the next tick, which drains all of it at once.
- Nothing is told to a worker before the commit that records it is answered `Appended`.
- The state is only ever `fold(journal)`, or that and the row in flight. On anything but `Appended` it is thrown away.
- A result in hand leaves the worker's keeping (`confirm`) only when a commit has applied or superseded it.

Failure cases:
- Lost version check: refold and compute again, with growing pauses, `MAX_CONFLICTS` times in a row; then the actor
  stops and a later wakeup begins anew.
- The database refuses the content of the commit: the run is set aside, visibly, with the error.
- The journal holds events unknown here: the run is quarantined on this host, untouched.
- Anything else that raises: the actor dies, its supervisor starts a fresh one from the journal after a pause, and sets
  the run aside when it keeps dying.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final

from ductor.actors.after_commit import InFlight, hand_out, tell_others
from ductor.actors.commits import assignment_of, commit_of, inputs_of
from ductor.actors.handing_over import starting_runs
from ductor.actors.messages import AttemptResult, MessageArrived, RunBegun, StartRun, TimerDue, Wake
from ductor.actors.observing import begins
from ductor.actors.runtime import LoopActor
from ductor.actors.tick.compute import TickInputs, compute
from ductor.actors.tick.payload import TickPayload
from ductor.actors.upkeep import Upkeep
from ductor.actors.views import Started, outcome_of
from ductor.definitions.program import Program
from ductor.journal.codec import decode_value
from ductor.journal.commit import Appended, Commit, CommitAnswer, Conflict, Payload, Refused, StartKeyTaken
from ductor.journal.errors import OverloadedError
from ductor.journal.events import TERMINAL_RUN_STATUSES, Message
from ductor.journal.ids import attempt_token
from ductor.journal.large_values import named_by_inputs
from ductor.journal.records import AttemptRow, Control
from ductor.journal.replay import loaded_state
from ductor.journal.state import RunState

if TYPE_CHECKING:
    from ductor.actors.engine import Engine

MAX_CONFLICTS = 8
"""Version checks lost in a row before the wakeup is given back."""

CONFLICT_PAUSE_S = 0.01
"""First pause after a lost version check; doubles with each further one."""


NO_PROGRAMS: Final[Mapping[str, Program]] = {}
"""What a run may start of which nothing is known yet."""


class Coordinator(LoopActor):
    """See the module's docstring."""

    def __init__(self, run_id: str, engine: "Engine") -> None:
        super().__init__()
        self.run_id = run_id
        self.engine = engine
        self.state: RunState | None = None
        self.program: Program | None = None
        self.library = NO_PROGRAMS
        self._results: list[AttemptResult] = []
        self._rows: Sequence[AttemptRow] = ()
        self._controls: Sequence[Control] = ()
        self._messages: list[Message] = []
        self._start: StartRun | None = None
        self._reads_inputs = self._reissues = self._is_due = False
        self._in_flight: InFlight | None = None
        self._conflicts = 0
        self._head_status = ""
        self._stored_due_us: int | None = None
        self._upkeep = Upkeep()
        self._end_is_told = False

    # --- messages -----------------------------------------------------------------------------------------------------

    def on_receive(self, message: object) -> Coroutine[None, None, None] | None:
        """Take a message in; what it means is decided when all that wait have been taken in."""
        self._is_due = True
        if type(message) is AttemptResult:
            self._results.append(message)
            if self.state is not None and not self._reads_inputs:
                return None  # there is nothing to be read for it
        elif type(message) is Appended:
            return self._appended()
        elif type(message) is Wake:
            self._reads_inputs = True
            self._reissues = self._reissues or message.reissues
        elif type(message) is MessageArrived:
            self._take_in_hand(message.message, message.payload)
        elif type(message) is StartRun:
            self._start = message
        elif type(message) is RunBegun:
            self._take_over(message)
        elif type(message) is TimerDue:
            # a message that was stored before the deadline comes before the timer
            self._reads_inputs = self._reads_inputs or (self.state is not None and self.state.is_listening)
        elif isinstance(message, Conflict | StartKeyTaken | Refused):
            return self._not_appended(message)
        else:
            raise TypeError(f"a coordinator does not know what to do with {message!r}")
        if self._in_flight is not None or self._start is not None or not self._may_read:
            return None
        if type(message) is Wake and self._has_messages:
            return None  # first things first: it is read after the next commit
        return self._reading()

    def on_drained(self) -> None:
        """All that waited is in hand: one tick for all of it."""
        if self._in_flight is not None or (self._reads_inputs and not self._may_read and not self._has_messages):
            return
        if self._start is not None and self.state is None:
            self._begin(self._start)
        elif self.state is not None:
            if self._is_due:
                self._tick()
            else:
                self._rest()

    # --- load ---------------------------------------------------------------------------------------------------------

    @property
    def _may_read(self) -> bool:
        """Whether what has been told so far is all that there is: one read serves all of it."""
        return self.state is None or self.actor_inbox.empty()

    @property
    def _has_messages(self) -> bool:
        """Whether messages are in hand that the next tick takes up. Who is woken all the time would else read all the
        time, and never take up what it has read."""
        return bool(self._messages) and self.state is not None and self.state.paused_at_us is None

    def _reading(self) -> Coroutine[None, None, None] | None:
        """What has to be read before the next tick."""
        if self.state is None:
            return self._load()
        return self._read_inputs() if self._reads_inputs else None

    async def _read_inputs(self) -> None:
        state = self.state
        self._reads_inputs = False
        self._is_due = True  # nobody tells us again of what is read now
        inputs = await self.engine.store.inputs(self.run_id)
        if state is None or inputs is None or inputs.head_version != state.version:
            await self._load()  # somebody else has written meanwhile
            return
        for payload in inputs.payloads:
            state.payloads[payload.hash] = decode_value(payload.text)
        self._controls, self._rows = inputs.controls, inputs.attempts
        self._messages = list(inputs.messages)
        self._offer_running()

    def _take_in_hand(self, message: Message, payload: Payload | None) -> None:
        """A message that was just stored; read instead where it may have been read already, or others came before it:
        a wakeup may have told of those."""
        state = self.state
        last = self._messages[-1].position if self._messages else state.message_position if state is not None else None
        if state is None or self._reads_inputs or last is None or message.position <= last:
            self._reads_inputs = True
            return
        if payload is not None:
            state.payloads[payload.hash] = decode_value(payload.text)
        self._messages.append(message)

    async def _load(self) -> None:
        self.state, self._reads_inputs, self._end_is_told = None, False, False
        loaded = await self.engine.store.load(self.run_id)
        if loaded is None:
            self.engine.run_not_found(self.run_id, self._results)
            self.actor_ref.stop()
            return
        state = loaded_state(loaded)
        self.program, self.library = await self.engine.programs.of_run(state)
        self.state, self._head_status = state, loaded.head.status
        self._stored_due_us = None if state.timers.earliest() is None else -1  # unknown: written anew when it matters
        self._upkeep.loaded(loaded)
        self._controls, self._rows = loaded.controls, loaded.attempts
        self._messages = list(loaded.messages)
        if state.status == "continued":
            await self._wake_latest()
        self._offer_running()

    async def _wake_latest(self) -> None:
        """Whoever wakes a run that others continue has told it something, and the latest of them has that now."""
        latest = await self.engine.store.latest_of_chain(self.run_id)
        if latest is not None and latest != self.run_id:
            self.engine.wake(latest, reissues=False)

    def _offer_running(self) -> None:
        """Attempts that the journal calls running go to workers again; one that holds its attempt keeps it.

        Only when a wakeup has told that some may be lost: another host may hold them. Not those whose result is here as
        a row, and none while the run is paused: resuming comes back to them. What was told to stop is told so again.
        """
        state, program = self.state, self.program
        if state is None or state.paused_at_us is not None:
            return
        reissues, self._reissues = self._reissues, False
        if reissues and any(control.kind == "cancel" for control in self._controls):
            reissues = False  # no handler is called again for what is cancelled by the next tick
            self.engine.wake_later(self.run_id)
        closing = state.closing
        is_stopping = closing is not None and not closing.is_compensating and not closing.defers_started
        if not state.running_count or not (reissues or is_stopping):
            return
        assert program is not None
        finished = {(row.node, row.generation) for row in self._rows}
        for ref in state.open_nodes:
            node = state.nodes[ref]
            if node.status == "running" and (ref, node.generation) not in finished:
                if reissues:
                    self.engine.offer(assignment_of(state, program.node(ref).step, ref, is_redelivery=True))
                if is_stopping:
                    self.engine.cancel(attempt_token(self.run_id, ref, node.generation))

    # --- tick ---------------------------------------------------------------------------------------------------------

    def _begin(self, start: StartRun) -> None:
        program, self.library = self.engine.programs.of_start(start.started)
        self.program, self.state = program, RunState(run_id=self.run_id)
        inputs = TickInputs(started=start.started, payloads=list(start.payloads))
        self._commit(self._compute(program, self.state, inputs), (), (), None)

    def _compute(self, program: Program, state: RunState, inputs: TickInputs) -> TickPayload:
        observer, now_us = self.engine.observer, self.engine.clock.now_us()
        if observer is None:
            return compute(program, state, inputs, now_us, self.library)
        began_s = perf_counter()
        payload = compute(program, state, inputs, now_us, self.library)
        observer.ticked(perf_counter() - began_s)
        return payload

    def _take_over(self, begun: RunBegun) -> None:
        """Another run has started this one, and nobody has carried it on yet; whoever has keeps it."""
        first = begun.first
        if self.state is not None or self._in_flight is not None:
            if first is not None:
                self._reads_inputs = self._reissues = True  # which offers what its first row has dispatched
            return
        state = begun.state
        self.state, self.program, self.library = state, begun.program, begun.library
        self._head_status, self._stored_due_us = state.status, state.next_due_us
        if first is not None:
            if self.engine.observer is not None:
                self.engine.observer.committed(state, first.events, has_begun=begins("", state.status))
            hand_out(self.engine, begun.program, state, first)
            self._is_due = first.is_limited

    def _tick(self) -> None:
        state, program = self.state, self.program
        assert state is not None
        assert program is not None
        results: Sequence[AttemptResult]
        results, rows, control = self._results, self._rows, None
        self._results, self._rows = [], ()
        if self._controls:
            control, *self._controls = self._controls
        self._is_due = False
        was_paused = state.paused_at_us is not None
        payload = self._compute(program, state, inputs_of(results, rows, self._messages, control))
        if self._messages:
            self._messages = list(payload.unread)
        if payload.deferred:  # the run is paused: what is in hand becomes rows, which are read when it is resumed
            for result in results:
                self.engine.side_writes.store_result(result)
            results, rows = (), ()
        if was_paused:
            # resumed: what waited meanwhile is read now, and attempts that were lost meanwhile are issued again
            self._reads_inputs = self._reissues = state.paused_at_us is None
            self._messages = [] if self._reads_inputs else self._messages
        if payload.events or payload.control is not None or rows or payload.outbox is not None:
            self._commit(payload, results, rows, control)
            return
        for result in results:  # superseded, all of them
            self.engine.confirm(result)
        self._rest()
        if self._reads_inputs and not self.actor_inbox.is_closed:
            self.actor_ref.tell(Wake(reissues=False))

    def _commit(
        self,
        payload: TickPayload,
        results: Sequence[AttemptResult],
        rows: Sequence[AttemptRow],
        control: Control | None,
    ) -> None:
        state, engine = self.state, self.engine
        assert state is not None
        assert self.program is not None
        outbox = payload.outbox
        starting = starting_runs(self.program, self.library, outbox, state.at_us, engine.begins_here) if outbox else ()
        commit = commit_of(
            state,
            payload,
            rows,
            commit_id=engine.ids.commit_id(),
            head_status=self._head_status,
            stored_due_us=self._stored_due_us,
            new_runs=tuple(run.new_run for run in starting) if starting else (),
        )
        self._in_flight = InFlight(commit, payload, results, rows, control, starting)
        observer = engine.observer
        try:
            engine.store.commit(commit, self._answer if observer is None else observer.submitting(self._answer))
        except OverloadedError as error:
            self._in_flight, self.state = None, None
            self.fail_start(error)
            self.actor_ref.stop()

    def _answer(self, answer: CommitAnswer) -> None:
        """Called by the store, on the loop."""
        if not self.actor_inbox.is_closed:
            self.actor_inbox.tell(answer)

    # --- after the commit ---------------------------------------------------------------------------------------------

    def _appended(self) -> Coroutine[None, None, None] | None:
        in_flight, self._in_flight = self._in_flight, None
        state, program, engine = self.state, self.program, self.engine
        assert in_flight is not None
        assert state is not None
        assert program is not None
        payload, commit = in_flight.payload, in_flight.commit
        self._is_due = bool(self._results or self._rows or self._controls or self._messages or payload.is_limited)
        self._conflicts = 0
        if engine.observer is not None and payload.events:
            engine.observer.committed(state, payload.events, has_begun=begins(self._head_status, state.status))
        self._head_status = state.status
        if commit.timer is not None:
            self._stored_due_us = commit.timer.due_at_us
        hand_out(engine, program, state, payload)
        for result in in_flight.results:
            engine.confirm(result)
        for row in in_flight.rows:
            engine.attempt_recorded(attempt_token(self.run_id, row.node, row.generation))
        if self._start is not None:
            self._answer_start(Started(self.run_id, is_new=True))
        if payload.outbox is not None:
            tell_others(engine, state, in_flight, payload.outbox)
        if state.is_warned:
            engine.long_runs.add(state)
        if state.status in TERMINAL_RUN_STATUSES and commit.version:
            engine.run_ended(outcome_of(state))
            self._end_is_told = True
        else:
            self._keep_small(state, commit)
        return self._read_inputs() if self._reads_inputs and not self._has_messages else None

    def _not_appended(self, answer: Conflict | StartKeyTaken | Refused) -> Coroutine[None, None, None] | None:
        in_flight, self._in_flight, self.state = self._in_flight, None, None
        assert in_flight is not None
        self._results[:0] = in_flight.results
        if type(answer) is Conflict:
            return self._after_conflict()
        if type(answer) is StartKeyTaken:
            self._answer_start(Started(answer.run_id, is_new=False))
        elif type(answer) is Refused:
            self.fail_start(answer.error)
            self.engine.set_aside(self.run_id, answer.error)
        self.actor_ref.stop()
        return None

    def _keep_small(self, state: RunState, commit: Commit) -> None:
        """Keep short what has to be loaded, and small what is in memory."""
        if self._upkeep.appended(commit, state):
            # results in hand bring their large values with them
            save = self.engine.side_writes.save_snapshot
            self._upkeep.tidy(state, save, lambda: named_by_inputs(self._rows, self._messages))
        if self.engine.options.compact_every_rows:
            self.engine.side_writes.compact_if_long(state)

    async def _after_conflict(self) -> None:
        self._conflicts += 1
        if self.engine.observer is not None:
            self.engine.observer.conflicted(self.run_id)
        if self._start is not None:
            self.fail_start(AssertionError(f"run {self.run_id}: a fresh run id was taken"))
        if self._conflicts > MAX_CONFLICTS:
            self.engine.wake_later(self.run_id)
            self.actor_ref.stop()
            return
        await asyncio.sleep(CONFLICT_PAUSE_S * 2 ** (self._conflicts - 1) if self._conflicts > 1 else 0)
        await self._load()

    def _rest(self) -> None:
        """Nothing to do until something comes: the host may take this actor out of memory."""
        state = self.state
        assert state is not None
        if state.status in TERMINAL_RUN_STATUSES:
            if not self._end_is_told:
                self.engine.run_ended(outcome_of(state))
            self.state = None
            if not self.stop_if_idle():
                self.actor_ref.stop()
            return
        self.engine.at_rest(self, state.next_due_us)

    @property
    def is_carrying_on(self) -> bool:
        """Whether the run is in hand here and has not ended."""
        return self.state is not None and not self.state.is_terminal

    @property
    def is_committing(self) -> bool:
        """Whether a commit is under way: what it dispatches has not been offered to a worker yet."""
        return self._in_flight is not None

    def passivate(self) -> bool:
        """Leave memory, if nothing is going on. Everything that matters is in the journal."""
        is_at_work = self._is_due or self._in_flight is not None or self._start is not None or bool(self._results)
        return not is_at_work and self.stop_if_idle()

    def _answer_start(self, started: Started) -> None:
        start, self._start = self._start, None
        if start is not None and not start.reply.done():
            start.reply.set_result(started)

    def fail_start(self, error: BaseException) -> None:
        """Tell who started the run that it did not begin. Nothing happens when that is answered already."""
        start, self._start = self._start, None
        if start is not None and not start.reply.done():
            start.reply.set_exception(error)
