"""Errors of the distributed queue."""

from ductor.actors.errors import ActorError


class QueueUnavailableError(ActorError):
    """A tier of the queue does not answer, refuses to write, or is too slow. What became of the call is unknown.

    Attributes:
        tier: which tier.
        reason: the driver's words.
    """

    code = "queue_unavailable"

    def __init__(self, tier: str, reason: str) -> None:
        self.tier, self.reason = tier, reason
        super().__init__(
            f"the {tier} tier of the queue does not serve: {reason}; enqueue again, tokens make it harmless"
        )


class QueueItemRefusedError(ActorError):
    """No tier can hold, or this version can't read, an item.

    Attributes:
        token: whose.
        field: which part of it.
        reason: what is wrong.
    """

    code = "queue_item_refused"

    def __init__(self, token: str, field: str, reason: str) -> None:
        self.token, self.field, self.reason = token, field, reason
        super().__init__(f"queue item {token[:200]!r}: its {field} {reason}")


class NoQueueError(ActorError):
    """Runs are kept where no other process can get at them, so that there is no queue between processes.

    Attributes:
        store: the kind of store.
    """

    code = "no_queue"

    def __init__(self, store: str) -> None:
        self.store = store
        super().__init__(
            f"work for other processes needs runs that are kept in PostgreSQL, and these are in a {store}: give the "
            "address of the database that the hosts use"
        )
