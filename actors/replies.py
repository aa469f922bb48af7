"""What `ask` gives: a Pykka future on the event loop."""

import asyncio
import logging
import sys
from collections.abc import Generator
from types import TracebackType
from typing import Any, TypeVar

import pykka

from ductor.actors.runtime_errors import WouldBlockError, WrongThreadError

_log = logging.getLogger(__name__)

T = TypeVar("T")


class AskFuture(pykka.Future[T]):
    """The reply to a message: `await` it. Cancelling the awaiting task gives the reply up."""

    def __init__(self) -> None:
        super().__init__()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise WrongThreadError("ask") from None
        self._reply: asyncio.Future[T | None] = loop.create_future()

    def set(self, value: T | None = None) -> None:
        """Answer. An asker who gave up is not an error."""
        if not self._reply.cancelled():
            self._reply.set_result(value)

    def set_exception(
        self,
        exc_info: tuple[type[BaseException] | None, BaseException | None, TracebackType | None] | None = None,
    ) -> None:
        """Answer with an error; by default the one being handled."""
        error = (exc_info or sys.exc_info())[1]
        assert error is not None
        if self._reply.cancelled():
            _log.warning("an error was not delivered, because its asker gave up", exc_info=error)
            return
        self._reply.set_exception(error)
        self._reply.exception()  # marks it as retrieved: an asker may look later, or never

    def get(self, *, timeout: float | None = None) -> T:  # noqa: ARG002 - Pykka's signature
        """The reply, if it is there; raises WouldBlockError if not."""
        if not self._reply.done():
            raise WouldBlockError
        return self._reply.result()  # type: ignore[return-value]  # Pykka allows `set(None)` for any T

    def done(self) -> bool:
        """Whether the reply is there, or was given up."""
        return self._reply.done()

    def __await__(self) -> Generator[Any, None, T]:
        return (yield from self._reply.__await__())  # type: ignore[return-value]  # as in `get`
