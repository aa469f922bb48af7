"""Actors on the asyncio loop, through Pykka's extension points.

Pykka gives the model: an actor has an inbox, others `tell` it or `ask` it, it handles one message at a time, and it
crashes rather than go on in an unknown state. Pykka's own actors have a thread each. A `LoopActor` has not even a task:

States of an inbox:
- *idle*: empty, nothing scheduled. An idle actor costs its memory and no time.
- *scheduled*: messages wait, and one `drain` is scheduled on the loop. It handles up to `MESSAGES_PER_LOOP_STEP`, then
  calls `on_drained`, and is scheduled anew if messages are left: no inbox can starve the loop.
- *busy*: `on_receive` gave a coroutine, which one task drives. Messages wait until it is done.
- *closed*: the actor has stopped or failed. Nothing is handled any more.

Invariants:
- All state is touched in the loop's thread alone. `tell` from another thread is a call scheduled on the loop.
- Handlers run in the actor's own `contextvars` context, never in that of whoever told it something.
- A told message is handled, or handed to the supervisor: with the actor's end (`actor_stopped`, `actor_failed`) what
  its inbox still held, later (`message_undelivered`) what was under way from another thread.
- An asked message is answered: by the handler, its error, or `ActorStoppedError`.

Failure cases:
- `on_receive` raises and there is a reply slot: the asker gets the error and the actor lives.
- Any other exception (from `on_start`, a told message, `on_drained`, `on_stop`) closes the inbox, calls `on_failure`
  and reports to the supervisor. A cancelled handler counts as failed. `KeyboardInterrupt` and `SystemExit` do the same
  and then go on to the loop.

`ductor.actors.directory` holds one actor per key.
"""

import asyncio
import inspect
import itertools
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextvars import Context, copy_context
from threading import get_ident
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import pykka
from pykka._envelope import Envelope
from pykka.messages import _ActorStop

from ductor.actors.replies import AskFuture
from ductor.actors.runtime_errors import ActorStoppedError, WrongThreadError

MESSAGES_PER_LOOP_STEP = 64

_log = logging.getLogger(__name__)
_numbers = itertools.count(1)

ReplySlot: TypeAlias = pykka.Future[Any]
"""Where the answer to what was asked goes."""

A = TypeVar("A", bound="LoopActor")
A_contra = TypeVar("A_contra", bound="LoopActor", contravariant=True)


class Supervisor(Protocol[A_contra]):
    """Learns of every actor's end. The calls come in the loop's thread, after the actor has left its directory."""

    def actor_stopped(self, actor: A_contra, undelivered: Sequence[object]) -> None:
        """The actor stopped in order. `undelivered` are told messages that came after the request to stop."""
        ...

    def actor_failed(self, actor: A_contra, error: BaseException, undelivered: Sequence[object]) -> None:
        """The actor died of `error`. `undelivered` are the told messages that waited behind the fatal one."""
        ...

    def message_undelivered(self, actor: A_contra, message: object) -> None:
        """A message was told from another thread while the actor ended."""
        ...


class LoggingSupervisor:
    """Says what happened in the log and lets it be: for actors that nobody supervises."""

    def actor_stopped(self, actor: "LoopActor", undelivered: Sequence[object]) -> None:
        """Log what was not handled."""
        if undelivered:
            _log.error("%s stopped with %d messages not handled: %r", actor, len(undelivered), undelivered)

    def actor_failed(self, actor: "LoopActor", error: BaseException, undelivered: Sequence[object]) -> None:
        """Log the error and what was not handled."""
        _log.error("%s failed with %d messages not handled", actor, len(undelivered), exc_info=error)

    def message_undelivered(self, actor: "LoopActor", message: object) -> None:
        """Log the message."""
        _log.error("%s had stopped and did not handle %r", actor, message)


class LoopInbox:
    """An actor's inbox and what empties it. See the module's docstring for its states.

    What is told waits as it is; what is asked waits in its envelope, with the slot for the reply. When its end has been
    reported the inbox forgets its actor, which knows it: the two would else be left to the collector of garbage, by the
    thousand.
    """

    __slots__ = (
        "_actor",
        "_context",
        "_is_scheduled",
        "_loop",
        "_name",
        "_task",
        "_thread_id",
        "_waiting",
        "is_closed",
    )

    def __init__(self) -> None:
        self._thread_id = get_ident()
        self._waiting: deque[object] = deque()
        self._is_scheduled = True  # until `open`: messages wait for the actor's start
        self._task: asyncio.Task[None] | None = None
        self._actor: LoopActor | None = None
        self._name = ""  # of the actor, once it is closed
        self.is_closed = False

    def open(self, actor: "LoopActor", context: Context) -> None:
        """Begin: `on_start` is the first thing to happen, in a loop step of its own."""
        self._actor, self._context, self._loop = actor, context, asyncio.get_running_loop()
        self._loop.call_soon(self._begin, context=context)

    def put(self, envelope: Envelope[Any], /) -> None:
        """Take a message in its envelope. Raises ActorStoppedError when closed."""
        if envelope.reply_to is None:
            self.tell(envelope.message)
        elif self._thread_id != get_ident():
            raise WrongThreadError("ask")
        else:
            self.tell(envelope)

    def tell(self, message: object) -> None:
        """Take a message that nobody waits for an answer to. Raises ActorStoppedError when closed."""
        if self._thread_id != get_ident():
            self._tell_from_thread(message)
            return
        if self.is_closed:
            raise ActorStoppedError(self._name)
        self._waiting.append(message)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._drain, context=self._context)

    def get(self) -> Envelope[Any]:
        """The next message. Only for Pykka's protocol: the inbox hands messages to the actor itself."""
        waiting = self._waiting.popleft()
        return waiting if type(waiting) is Envelope else Envelope(waiting)

    def empty(self) -> bool:
        """Whether no message waits."""
        return not self._waiting

    def cancel(self) -> None:
        """Cancel the coroutine that handles a message, if there is one: the actor fails with CancelledError."""
        if self._task is not None:
            self._task.cancel()

    def _tell_from_thread(self, message: object) -> None:
        actor = self._actor
        if self.is_closed or actor is None:
            raise ActorStoppedError(self._name)
        try:
            self._loop.call_soon_threadsafe(self._take_over, actor, message)
        except RuntimeError as error:  # the loop is closed
            raise ActorStoppedError(str(actor)) from error

    def _take_over(self, actor: "LoopActor", message: object) -> None:
        if self.is_closed:
            actor.supervisor.message_undelivered(actor, message)
        else:
            self.tell(message)

    def _begin(self) -> None:
        if self.is_closed:
            return
        actor = self._actor
        assert actor is not None
        try:
            actor.on_start()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the actor can't go on
            self._fail(error)
        else:
            self._drain()

    def _drain(self) -> None:
        waiting, actor = self._waiting, self._actor
        if actor is None:  # somebody else has stopped it, after a coroutine had handled the last message
            return
        receive = actor.on_receive
        try:
            for _ in range(MESSAGES_PER_LOOP_STEP):
                if not waiting:
                    break
                message, reply_to = waiting.popleft(), None
                if type(message) is Envelope:
                    message, reply_to = message.message, message.reply_to
                if type(message) is _ActorStop:
                    self._stop(reply_to)
                    return
                result = receive(message) if reply_to is None else self._receive_asked(actor, message, reply_to)
                if result is not None and isinstance(result, Coroutine):
                    self._begin_handling(result, reply_to)
                    return
                if self.is_closed:
                    return
            actor.on_drained()
            if waiting and not self.is_closed:
                self._loop.call_soon(self._drain, context=self._context)
            else:
                self._is_scheduled = False
        except BaseException as error:  # noqa: BLE001 - whatever it is, the actor can't go on
            self._fail(error)

    def _receive_asked(self, actor: "LoopActor", message: object, reply_to: ReplySlot) -> object:
        try:
            result: object = actor.on_receive(message)
        except Exception:  # noqa: BLE001 - the asker gets it
            reply_to.set_exception()
            return None
        except BaseException:
            self._refuse(reply_to)
            raise
        if not isinstance(result, Coroutine):
            reply_to.set(result)
        return result

    def _begin_handling(self, handling: Coroutine[Any, Any, object], reply_to: ReplySlot | None) -> None:
        self._task = self._loop.create_task(self._drive(handling, reply_to), context=self._context)
        self._task.add_done_callback(lambda _task: self._ended(handling))

    def _ended(self, handling: Coroutine[Any, Any, object]) -> None:
        """A task that was cancelled before its first step has done nothing of what ends the handling of a message."""
        if inspect.getcoroutinestate(handling) == inspect.CORO_CREATED:
            handling.close()
            if not self.is_closed:
                self._fail(asyncio.CancelledError())

    async def _drive(self, handling: Coroutine[Any, Any, object], reply_to: ReplySlot | None) -> None:
        try:
            result = await handling
        except BaseException as error:  # noqa: BLE001 - see the module's docstring
            if reply_to is None or not isinstance(error, Exception):
                self._refuse(reply_to)
                self._fail(error)
                return
            reply_to.set_exception()
        else:
            if reply_to is not None:
                reply_to.set(result)
        self._task = None
        if not self.is_closed:
            self._loop.call_soon(self._drain, context=self._context)

    def stop_if_idle(self) -> bool:
        """See `LoopActor.stop_if_idle`."""
        if self._waiting or self._task is not None or self.is_closed:
            return False
        self._stop(None)
        return True

    def _stop(self, reply_to: ReplySlot | None) -> None:
        actor = self._actor
        assert actor is not None
        undelivered = self._close(actor)
        try:
            actor.on_stop()
        except BaseException as error:  # noqa: BLE001 - reported to the supervisor
            self._report_failure(actor, error, undelivered)
        else:
            actor.supervisor.actor_stopped(actor, undelivered)
        finally:
            self._actor = None
            if reply_to is not None:
                reply_to.set(True)

    def _fail(self, error: BaseException) -> None:
        actor = self._actor
        if self.is_closed or actor is None:  # it stopped first and raised then
            _log.error("%s raised after it had stopped", self._name, exc_info=error)
            _pass_on(error)
            return
        undelivered = self._close(actor)
        try:
            self._report_failure(actor, error, undelivered)
        finally:
            self._actor = None

    def _report_failure(self, actor: "LoopActor", error: BaseException, undelivered: Sequence[object]) -> None:
        try:
            actor.on_failure(type(error), error, error.__traceback__)
        except Exception:  # noqa: BLE001 - the first error is the one to report
            _log.exception("%s: on_failure raised", actor)
        actor.supervisor.actor_failed(actor, error, undelivered)
        _pass_on(error)

    def _close(self, actor: "LoopActor") -> list[object]:
        """Close the inbox, refuse what was asked, return what was told."""
        self.is_closed, self._name = True, str(actor)
        self._task = None
        undelivered: list[object] = []
        while self._waiting:
            waiting = self._waiting.popleft()
            if type(waiting) is not Envelope:
                if type(waiting) is not _ActorStop:
                    undelivered.append(waiting)
            elif type(waiting.message) is _ActorStop and waiting.reply_to is not None:
                waiting.reply_to.set(True)
            else:
                self._refuse(waiting.reply_to)
        return undelivered

    def _refuse(self, reply_to: ReplySlot | None) -> None:
        if reply_to is not None:
            error = ActorStoppedError(self._name or str(self._actor))
            reply_to.set_exception((type(error), error, None))


def _pass_on(error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error


class StopFlag:
    """Whether an actor has stopped, for code that knows Pykka's actors only."""

    __slots__ = ("_inbox",)

    def __init__(self, inbox: LoopInbox) -> None:
        self._inbox = inbox

    def is_set(self) -> bool:
        """Whether it has stopped."""
        return self._inbox.is_closed


class LoopActorRef(pykka.ActorRef[A]):
    """A reference to a `LoopActor`. It may be passed to other threads, which may `tell`."""

    actor_inbox: LoopInbox

    def is_alive(self) -> bool:
        """Whether the actor still takes messages."""
        return not self.actor_inbox.is_closed

    def tell(self, message: object) -> None:
        """Put a message into the actor's inbox; raises ActorStoppedError when the actor has stopped."""
        self.actor_inbox.tell(message)

    def ask(self, message: object) -> AskFuture[Any]:  # type: ignore[override]  # blocking would stop the answering loop
        """Put a message into the inbox and give the reply to wait for.

        The reply raises what the handler raised, or ActorStoppedError. Raises WrongThreadError outside of the loop.
        """
        reply: AskFuture[Any] = AskFuture()
        try:
            self.actor_inbox.put(Envelope(message, reply_to=reply))
        except ActorStoppedError:
            reply.set_exception()
        return reply

    def stop(self) -> AskFuture[bool]:  # type: ignore[override]  # blocking would stop the loop that stops the actor
        """Ask the actor to stop after the messages that wait already.

        The reply is True when it has stopped, False when it had stopped before the call.
        """
        reply: AskFuture[bool] = AskFuture()
        try:
            self.actor_inbox.put(Envelope(_ActorStop(), reply_to=reply))
        except ActorStoppedError:
            reply.set(False)
        return reply


class LoopActor(pykka.Actor):
    """Base of actors that live on the event loop.

    `on_receive` is an ordinary function or a coroutine function; the former costs neither task nor future. `on_start`,
    `on_stop`, `on_failure` and `on_drained` are ordinary functions.

    Attributes:
        key: what the actor's directory calls it; None outside of one.
        supervisor: learns of the actor's end.
    """

    key: Hashable | None = None
    supervisor: Supervisor[Any] = LoggingSupervisor()
    actor_inbox: LoopInbox

    _create_actor_inbox = staticmethod(LoopInbox)
    _create_future: Callable[[], AskFuture[Any]] = staticmethod(AskFuture)

    def __init__(self) -> None:
        # Not Pykka's own: a random URN and a threading.Event would double an actor's cost in time and memory.
        self.actor_urn = f"urn:ductor:actor:{next(_numbers)}"
        self.actor_inbox = self._create_actor_inbox()

    @classmethod
    def start(cls, *args: Any, **kwargs: Any) -> LoopActorRef[Self]:
        """Construct an actor with these arguments and start it in the running loop."""
        actor = cls(*args, **kwargs)
        actor._start_actor_loop()
        return actor.actor_ref

    @property
    def actor_stopped(self) -> StopFlag:  # type: ignore[override]  # all of an Event that Pykka uses
        """Whether the actor has stopped, as Pykka asks."""
        return StopFlag(self.actor_inbox)

    @property
    def actor_ref(self) -> LoopActorRef[Self]:
        """The reference to hand out; made when somebody wants one, which most actors never see."""
        return LoopActorRef(self)

    def start_in(self, context: Context) -> None:
        """Start in the running loop; handlers run in `context`, which no other actor may share."""
        self.actor_inbox.open(self, context)

    def _start_actor_loop(self) -> None:
        self.start_in(copy_context())

    def stop_if_idle(self) -> bool:
        """Stop at once if no message waits behind the one being handled; otherwise do nothing and return False.

        For ordinary handlers: an actor that leaves this way leaves in a loop step in which its inbox is empty.
        """
        return self.actor_inbox.stop_if_idle()

    def on_drained(self) -> None:
        """Called after the handled messages of one loop step: the place for work that several messages share."""

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.actor_urn if self.key is None else self.key}"
