"""Errors of the actor runtime itself."""

import pykka

from ductor.actors.errors import ActorError


class ActorStoppedError(ActorError, pykka.ActorDeadError):
    """A message was meant for an actor that has stopped. It was not handled.

    Attributes:
        actor: class and number of the actor.
    """

    code = "actor_stopped"

    def __init__(self, actor: str) -> None:
        self.actor = actor
        super().__init__(
            f"{actor} has stopped and did not handle the message; look it up in its directory and tell again"
        )


class DirectoryClosedError(ActorError):
    """A directory of actors has been closed and starts none any more.

    Attributes:
        key: whose actor was wanted.
    """

    code = "directory_closed"

    def __init__(self, key: object) -> None:
        self.key = key
        super().__init__(f"no actor is started for {key!r}: the directory is closed because its host shuts down")


class WrongThreadError(ActorError):
    """Something that belongs to the thread of an actor's loop was called from elsewhere.

    Attributes:
        operation: what was called.
    """

    code = "wrong_thread"

    def __init__(self, operation: str) -> None:
        self.operation = operation
        super().__init__(
            f"{operation} works only in the thread of the actor's event loop; "
            "use `tell`, or `asyncio.run_coroutine_threadsafe`, from another thread"
        )


class WouldBlockError(ActorError):
    """A reply was demanded before it was there. Waiting for it would block the loop that has to produce it."""

    code = "would_block"

    def __init__(self) -> None:
        super().__init__(
            "the reply is not there yet, and waiting for it would block the event loop: `await` it instead"
        )
