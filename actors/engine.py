"""What the actors of one host share: store, programs, workers, timers, and who waits for which run.

The engine is the coordinators' only view of the world, and their supervisor. It decides nothing about a run.

Where a run is carried out: by the owner of its partition, unless another host has it in hand. That one keeps it until
it is at rest for `idle_ms`, or until partitions change hands, and tells others which attempts of such runs it holds
(*guests*). Who is told of a run that is neither its own nor in hand tells the owner.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import chain
from typing import Any

from ductor.actors.coordinator import Coordinator
from ductor.actors.directory import ActorDirectory
from ductor.actors.engine_options import EngineOptions
from ductor.actors.errors import HostStoppedError
from ductor.actors.left_alone import RunsLeftAlone
from ductor.actors.log_fields import LogFields, run_fields
from ductor.actors.long_runs import LongRuns
from ductor.actors.losses import LostAttempts
from ductor.actors.membership import Observation
from ductor.actors.messages import Assignment, AttemptResult, MessageArrived, RunBegun, StartRun, TimerDue, Wake
from ductor.actors.observing import Observer
from ductor.actors.partitions import PartitionMap
from ductor.actors.program_cache import ProgramCache
from ductor.actors.queue.distributed import DistributedQueue
from ductor.actors.remote import RemoteTasks
from ductor.actors.side_writes import SideWrites
from ductor.actors.tasks import TaskRegistry
from ductor.actors.timers import TimerService
from ductor.actors.views import RunOutcome, Started
from ductor.actors.waiters import Waiters
from ductor.actors.wakeups import Wakeups
from ductor.actors.whereabouts import Whereabouts
from ductor.actors.withdrawn import WithdrawnGuests
from ductor.actors.worker import WorkerPool
from ductor.definitions.expressions import FunctionLibrary
from ductor.definitions.values import JsonValue
from ductor.journal.clock import Clock
from ductor.journal.commit import Commit, Payload
from ductor.journal.errors import StoreUnavailableError, UnknownEventError
from ductor.journal.events import Message, RunStarted
from ductor.journal.ids import Ids, run_of_token
from ductor.journal.lease_store import LeaseKey
from ductor.journal.store import Store
from ductor.journal.worker_store import WorkerRecord

MAX_ACTOR_FAILURES = 5
"""A run that kills its actor so often in a row is set aside."""

MAX_RESTART_PAUSE_S = 15.0
"""Longest pause before a failed actor's successor; the first is 0.05 s, each further one twice as long."""

HAND_OVER_MS = 1_000
"""How long a host that drains waits for coordinators to come to rest, so that their runs go on elsewhere at once."""

HAND_OVER_PAUSE_S = 0.01

_log = logging.getLogger(__name__)


class Engine:
    """See the module's docstring.

    Attributes:
        remote: attempts in other processes; None where there are none.
        partitions: who owns which runs.
        whereabouts: of attempts that this host does not hold.
        lost: those that were lost with hosts, and wait to be counted.
        withdrawn: those of them, and of others, that the runs in hand here want no more.
        wakeups: takes wakeups to other hosts; None where a host that knows of something carries the run on itself.
        observer: is told what happens; None where nobody watches.
        has_left_attempts: there may be attempts that no worker here took or finished; of interest once it is closed.
    """

    def __init__(  # noqa: PLR0913 - what it needs of the world, each handed in
        self,
        store: Store,
        registry: TaskRegistry,
        *,
        clock: Clock,
        ids: Ids,
        options: EngineOptions,
        functions: FunctionLibrary | None = None,
        host_id: str,
        queue: DistributedQueue | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.observer = observer
        self.store, self.clock, self.ids, self.options = store, clock, ids, options
        self.functions, self.registry = functions, registry
        self.programs = ProgramCache(store, functions)
        self.pool = WorkerPool(
            registry,
            deliver=self.deliver,
            clock=clock,
            concurrency=options.concurrency,
            threads=options.threads,
            name=host_id,
        )
        if observer is not None:
            self.pool.around_handler = observer.around_handler
        self.timers = TimerService(clock, lambda run_id: self.tell(run_id, TimerDue()))
        self.directory: ActorDirectory[str, Coordinator] = ActorDirectory(
            lambda run_id: Coordinator(run_id, self), self
        )
        self.left_alone = RunsLeftAlone(store, host_id, self.spawn)
        self.long_runs = LongRuns()
        self.side_writes = SideWrites(store, self)
        self.waiters = Waiters()
        self._resting: OrderedDict[str, float] = OrderedDict()  # since when, by the loop's clock
        self._failures: dict[str, int] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._pauses: set[asyncio.TimerHandle] = set()
        self._loop = asyncio.get_running_loop()
        self._is_closing = False
        self._is_draining = False
        self.has_left_attempts = False
        self.partitions = PartitionMap(host_id, [host_id])
        self.whereabouts = Whereabouts()
        self.withdrawn = WithdrawnGuests()
        self.lost = LostAttempts(self, options.max_losses)
        self.wakeups: Wakeups | None = None
        self.remote = None if queue is None else RemoteTasks(queue, self, options.remote_queues, name=host_id)
        self.bus_work: Callable[[Commit], None] = lambda _commit: None
        self.leases_changed: Callable[[Sequence[LeaseKey]], None] = lambda _keys: None

    # --- what coordinators use ----------------------------------------------------------------------------------------

    def tell(self, run_id: str, message: object) -> None:
        """Tell a run's coordinator; one is started if there is none."""
        if not self._is_closing:
            self.directory.tell(run_id, message)

    def offer(self, assignment: Assignment) -> None:
        """Hand an attempt to a worker; one that holds it already keeps it, and reports again what it has.

        Those that shall not run here, or may run elsewhere, go to the queue between processes, where there is one. A
        full pool takes nothing: the run is looked at again after a pause, which offers the attempt again.
        """
        if assignment.is_redelivery and self.pool.holds(assignment.token):
            self.offer_here(assignment)
        elif not assignment.is_redelivery or self.whereabouts.was_offered_in_vain(assignment.token):
            self.issue(assignment)
        elif self.whereabouts.may_issue_again(assignment, self.partitions):
            if assignment.task in self.registry and (self.remote is None or not self.remote.keeps(assignment)):
                self.lost.add(assignment)  # which issues it
            else:  # no handler is called for it here: it can't end this host
                self.issue(assignment)

    def issue(self, assignment: Assignment) -> None:
        """Hand an attempt that nobody has to a worker, of another process or of this one."""
        if self.remote is None or not self.remote.offer(assignment):
            self.offer_here(assignment)

    def may_offer_again(self, token: str) -> None:
        """See `Whereabouts.offered_in_vain`."""
        self.whereabouts.offered_in_vain(token)

    def offer_here(self, assignment: Assignment) -> None:
        """Hand an attempt to a worker of this host."""
        if not self.pool.offer(assignment):
            self.has_left_attempts = True
            if not self._is_draining:
                self.may_offer_again(assignment.token)
                self.wake_later(assignment.run_id)

    def cancel(self, token: str) -> None:
        """Tell a worker to stop an attempt, be it another host's."""
        self.lost.cancel(token)
        self.pool.cancel(token)
        if self.remote is not None:
            self.remote.cancel(token)
        if self.partitions.owned is not None and not self.pool.holds(token):
            self.withdrawn.add(token)

    def confirm(self, result: AttemptResult) -> None:
        """A result is in the journal, or superseded: its worker may forget it."""
        self.pool.confirm(result.token)
        self.attempt_recorded(result.token)

    def attempt_recorded(self, token: str) -> None:
        """As `confirm`, of an attempt whose result came as a row: nobody here has it in keeping."""
        self.lost.forget(token)
        if self.remote is not None:
            self.remote.forget(token)

    def deliver(self, result: AttemptResult) -> None:
        """A worker reports; it keeps the result until `confirm`. Of a run of another owner it becomes a row."""
        run_id = result.run_id
        if self.partitions.owned is None or self.partitions.owns(run_id) or run_id in self.directory:
            if not self._is_closing:
                self.directory.tell(run_id, result)
        else:
            self.side_writes.report_to_owner(result)

    def waiting_for_handler(self, workers: Sequence[WorkerRecord] = ()) -> dict[str, int]:
        """How many attempts wait for each handler that neither this process nor one of these workers has."""
        if self.remote is None:
            return dict(self.pool.waiting_for_handler())
        return dict(self.remote.waiting_for_handler(workers))

    def at_rest(self, actor: Coordinator, due_at_us: int | None) -> None:
        """A coordinator has nothing to do until something comes."""
        run_id = actor.run_id
        if self._failures:
            self._failures.pop(run_id, None)
        self.timers.arm(run_id, due_at_us)
        self._resting[run_id] = self._loop.time()
        self._resting.move_to_end(run_id)
        if self._is_draining and not self.partitions.owns(run_id):
            self._give_up(actor)
        if len(self._resting) > self.options.max_hot_runs:
            self.passivate_oldest()

    def passivate_oldest(self) -> None:
        """Take the coordinator at rest for the longest out of memory."""
        if (actor := self.directory.get(self._resting.popitem(last=False)[0])) is not None:
            actor.passivate()

    def passivate_idle(self) -> None:
        """Take those out of memory that have been at rest for too long."""
        limit_s = self._loop.time() - self.options.idle_ms / 1_000
        while self._resting and next(iter(self._resting.values())) < limit_s:
            self.passivate_oldest()

    def run_ended(self, outcome: RunOutcome) -> None:
        """A run has ended: who waits for it learns how."""
        self.timers.arm(outcome.run_id, None)
        self._resting.pop(outcome.run_id, None)
        self.waiters.ended(outcome)

    def run_not_found(self, run_id: str, results: Sequence[AttemptResult]) -> None:
        """A run that something was told about does not exist (its retention is over)."""
        self.timers.arm(run_id, None)
        for result in results:
            self.confirm(result)

    def set_aside(self, run_id: str, error: Exception) -> None:
        """Leave a run alone, visibly: health reports and logs name it with the error."""
        _log.error("run %s is set aside: %s", run_id, error, extra=self._about(run_id))
        self.left_alone.add(run_id, error)
        self.timers.arm(run_id, None)
        self._resting.pop(run_id, None)

    def runs_at_work(self) -> set[str]:
        """Runs of which somebody is known to have an attempt, or a commit is under way."""
        runs = set(map(run_of_token, chain(self.pool.held_tokens(), self.lost.tokens, self.whereabouts.elsewhere)))
        runs.update(actor.run_id for actor in self.directory if actor.is_committing)
        if self.remote is not None:
            runs.update(self.remote.awaited_runs())
        return runs

    def begins_here(self, run_id: str) -> bool:
        """Whether a run that a commit starts is going to be carried out here."""
        return self.partitions.owns(run_id) and not self._is_draining

    def begin(self, begun: RunBegun) -> None:
        """A run that a commit has started is durable: its owner gets it, unless it has decided its first steps here."""
        run_id = begun.state.run_id
        is_ours = begun.first is not None or self.partitions.owns(run_id)
        if not is_ours and self.wakeups is not None:
            self.wakeups.send(run_id, self.partitions.owner(run_id))
        elif self._is_closing and begun.first is not None:
            self.has_left_attempts = True
        elif is_ours or not self._is_draining:
            self.tell(run_id, begun)

    def wake_later(self, run_id: str) -> None:
        """Give a wakeup back: the run is looked at again after a pause that grows with its failures."""
        failures = self._failures.get(run_id, 0)
        pause_s = min(0.05 * 2**failures, MAX_RESTART_PAUSE_S)
        handle = self._loop.call_later(pause_s, self.wake, run_id)
        self._pauses = {pause for pause in self._pauses if not pause.cancelled() and pause.when() > self._loop.time()}
        self._pauses.add(handle)

    # --- what the host uses -------------------------------------------------------------------------------------------

    def start(
        self, run_id: str, started: RunStarted, payloads: Sequence[tuple[Payload, JsonValue]]
    ) -> asyncio.Future[Started]:
        """Begin a run with its first decisions in the same commit. The answer comes when it is durable."""
        reply: asyncio.Future[Started] = self._loop.create_future()
        self.directory.tell(run_id, StartRun(started, tuple(payloads), reply))
        return reply

    def message_stored(self, run_id: str, message: Message, payload: Payload | None) -> None:
        """A message for a run was stored: a coordinator that is hot takes it in hand, a cold one reads it."""
        if run_id in self.directory:
            self.tell(run_id, MessageArrived(message, payload))
        else:
            self.wake(run_id, reissues=False)

    def wake(self, run_id: str, *, reissues: bool = True) -> None:
        """Have a run looked at: by its owner, unless it is in hand here or there is no way to tell the owner.

        What may have been lost here, and has to be issued again, is looked at here.
        """
        if reissues or self.wakeups is None or self.partitions.owns(run_id) or run_id in self.directory:
            self.wake_here(run_id, reissues=reissues)
        else:
            self.wakeups.send(run_id, self.partitions.owner(run_id))

    def wake_here(self, run_id: str, *, reissues: bool = True) -> None:
        """Look at a run and at what waits for it in the database, unless it is set aside."""
        if run_id not in self.left_alone.errors:
            self.tell(run_id, Wake(reissues))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the actors; `close` waits for it."""
        task = self._loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def settle(self, observation: Observation) -> None:
        """Who owns what may have changed, or what others hold: hand over what is no longer this host's, and look again
        at runs of which everybody has told by now what he holds."""
        before, partitions = self.partitions, observation.partitions
        self.partitions = partitions
        if before.owned != partitions.owned:
            for actor in self.directory:
                if not partitions.owns(actor.run_id):
                    self._give_up(actor)
        for run_id in self.whereabouts.told(observation):
            self.wake_here(run_id)
        if partitions.owned is not None:
            self._report_what_is_left()

    def _report_what_is_left(self) -> None:
        """Results for runs of other owners that were lost with the coordinator that had them in hand: nobody asks for
        them, as their attempts are known to be in good hands here."""
        for result in self.pool.unconfirmed():
            if not self.partitions.owns(result.run_id) and result.run_id not in self.directory:
                self.deliver(result)

    def guest_tokens(self) -> Iterator[str]:
        """Tokens of attempts that this host holds although it does not own their runs."""
        if self.partitions.owned is None:
            return iter(())
        held = chain(self.pool.held_tokens(), self.lost.tokens)
        return (token for token in held if not self.partitions.owns(run_of_token(token)))

    @property
    def takes_up_nothing(self) -> bool:
        """Whether this host drains, and others are there to take up what begins."""
        return self._is_draining and self.partitions.owned is not None

    async def hand_over(self) -> None:
        """This host owns nothing any more: let coordinators come to rest, and others take their runs up."""
        self._is_draining = True
        until_s = self._loop.time() + HAND_OVER_MS / 1_000
        while self._loop.time() < until_s:
            waiting = [actor for actor in self.directory if not self.partitions.owns(actor.run_id)]
            if not waiting:
                return
            for actor in waiting:
                self._give_up(actor)
            await asyncio.sleep(HAND_OVER_PAUSE_S)

    async def close(self, timeout_ms: int) -> None:
        """Drain: workers first, then coordinators, with what their results still decide."""
        self._is_draining = True
        await self.lost.close()
        not_running = self.pool.in_flight - self.pool.load.running
        interrupted = await self.pool.drain(timeout_ms)
        if interrupted or not_running:
            self.has_left_attempts = True
        self._is_closing = True
        for handle in self._pauses:
            handle.cancel()
        self.timers.close()
        await self.directory.close(timeout_ms)
        for result in self.pool.unconfirmed():  # a coordinator had it in hand that stopped before it could decide on it
            self.side_writes.store_result(result)
        until_s = self._loop.time() + timeout_ms / 1_000
        while self._background and (left_s := until_s - self._loop.time()) > 0:
            await asyncio.wait(self._background, timeout=left_s)  # what is begun by them is waited for as well
        if self.whereabouts.holds_back or self.lost.has_left_attempts or self.pool.unconfirmed():
            self.has_left_attempts = True
        self.waiters.cancel()
        await self.pool.close()
        if self.remote is not None and not await self.remote.close(timeout_ms):
            self.has_left_attempts = True

    # --- supervision --------------------------------------------------------------------------------------------------

    def actor_stopped(self, actor: Coordinator, undelivered: Sequence[object]) -> None:
        """An orderly end. What was left over has gone to a new actor, but for a host that closes."""
        if actor.is_committing:
            self.has_left_attempts = True
        if self._is_closing:
            self._refuse_starts(actor, undelivered)
        if undelivered and not self._is_closing:
            _log.error(
                "%s left %d messages behind", actor, len(undelivered), extra=run_fields(actor.run_id, actor.state)
            )

    def actor_failed(self, actor: Coordinator, error: BaseException, undelivered: Sequence[object]) -> None:
        """A coordinator died. What it had in hand is still with its owners; a fresh one begins from the journal."""
        run_id = actor.run_id
        self._resting.pop(run_id, None)
        actor.fail_start(error)
        if self._is_closing:
            self._refuse_starts(actor, undelivered)
            return
        for message in undelivered:
            if isinstance(message, StartRun):
                self.directory.tell(run_id, message)
        if isinstance(error, UnknownEventError):
            self.set_aside(run_id, error)
            return
        failures = self._failures.get(run_id, 0) + 1
        self._failures[run_id] = failures
        if failures >= MAX_ACTOR_FAILURES and not isinstance(error, StoreUnavailableError):
            del self._failures[run_id]
            self.set_aside(run_id, error if isinstance(error, Exception) else RuntimeError(repr(error)))
            return
        fields = run_fields(run_id, actor.state)
        level = logging.DEBUG if isinstance(error, StoreUnavailableError) else logging.WARNING
        _log.log(
            level, "the coordinator of run %s failed (%d in a row)", run_id, failures, exc_info=error, extra=fields
        )
        self.wake_later(run_id)

    def message_undelivered(self, actor: Coordinator, message: object) -> None:
        """Told from another thread while the host closes: the journal and the worker have what matters."""
        _log.info("%s did not get %r: the host is closing", actor, message, extra=run_fields(actor.run_id))

    def _refuse_starts(self, actor: Coordinator, undelivered: Sequence[object]) -> None:
        """The host closes: who waits for a start hears that it stopped. Whether the run began, his start key tells."""
        actor.fail_start(HostStoppedError())
        for message in undelivered:
            if isinstance(message, StartRun) and not message.reply.done():
                message.reply.set_exception(HostStoppedError())

    def _about(self, run_id: str) -> LogFields:
        actor = self.directory.get(run_id)
        return run_fields(run_id, None if actor is None else actor.state)

    def _give_up(self, actor: Coordinator) -> None:
        """Leave a run to its owner, if nothing is going on with it just now."""
        if actor.passivate():
            self.timers.arm(actor.run_id, None)
            self._resting.pop(actor.run_id, None)
