"""What a tick gives: events to commit, and what is to happen once they are committed."""

from collections.abc import Sequence

import msgspec

from ductor.actors.tick.outbox import Outbox
from ductor.actors.tick.working import Withdrawal
from ductor.journal.commit import ControlDisposition, Payload
from ductor.journal.events import AnyEvent, AttemptFinished, Message


class TickPayload(msgspec.Struct, kw_only=True, gc=False):
    """The outcome of one tick. Without `events` there is no row to commit.

    Attributes:
        dispatched: refs of the nodes whose current attempt goes to a worker after the commit.
        withdrawn: attempts that are told to stop after the commit.
        payloads: large values named by the events.
        superseded: results that were not applied, and never will be.
        deferred: results that are applied when the run is resumed.
        unread: messages that were not absorbed: the run is paused, or the tick reached its limits.
        outbox: what is written beside the row; None for nothing.
        control: what became of the control this tick took up.
        is_limited: the tick stopped at its limits; another one follows at once.
    """

    events: list[AnyEvent]
    dispatched: Sequence[str] = ()
    withdrawn: Sequence[Withdrawal] = ()
    payloads: Sequence[Payload] = ()
    superseded: Sequence[AttemptFinished] = ()
    deferred: Sequence[AttemptFinished] = ()
    unread: Sequence[Message] = ()
    outbox: Outbox | None = None
    control: ControlDisposition | None = None
    is_limited: bool = False
