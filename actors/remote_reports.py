"""Results of a worker process on their way into the journal.

A result becomes an attempt row. Only when that is durable its item is acknowledged to the queue, and the host that owns
the run is told; the host also finds the row by itself with its next sweep. Until then the result stays in keeping,
however long the database is away. What is lost on the way after that is found again: an item that was not acknowledged
is delivered once more, and whoever gets it sees the row.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import Final

import msgspec

from ductor.actors.commits import row_of
from ductor.actors.failures import error_info
from ductor.actors.log_fields import attempt_fields
from ductor.actors.messages import AttemptResult
from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL
from ductor.journal.errors import OverloadedError, StoreUnavailableError, ValueRefusedError
from ductor.journal.store import Store

RETRY_FIRST_S: Final = 0.05
RETRY_MAX_S: Final = 5.0
"""Pauses while the database can't be reached: the first, then twice as long each time."""

Reported = Callable[[Mapping[str, AttemptResult]], Awaitable[None]]

_log = logging.getLogger(__name__)


class ResultReporter:
    """Appends results in the order in which they came, many at a time. All methods belong to the loop's thread."""

    def __init__(self, store: Store, reported: Reported) -> None:
        """Args: `reported` is awaited with results, by token, that are durable by now."""
        self._store, self._reported = store, reported
        self._waiting: dict[str, AttemptResult] = {}
        self._reporting: asyncio.Task[None] | None = None
        self._refusal: StoreUnavailableError | OverloadedError | None = None
        self._quiet = asyncio.Event()
        self._quiet.set()

    def report(self, result: AttemptResult) -> None:
        """Take a result in keeping."""
        self._waiting[result.token] = result
        self._quiet.clear()
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().create_task(self._report_all())

    @property
    def in_keeping(self) -> int:
        """Results that are not durable yet."""
        return len(self._waiting)

    async def close(self, timeout_ms: int) -> int:
        """Wait for what is on its way. How many results are not durable after `timeout_ms`; their items are delivered
        again."""
        if not self._quiet.is_set():
            waiting = asyncio.ensure_future(self._quiet.wait())
            await asyncio.wait((waiting,), timeout=timeout_ms / 1_000)
            waiting.cancel()
        reporting = self._reporting
        if reporting is not None:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
        return len(self._waiting)

    async def _report_all(self) -> None:
        pause_s, reported, is_held_up = RETRY_FIRST_S, 0, False
        while self._waiting:
            batch = list(islice(self._waiting.items(), MAX_ITEMS_PER_CALL))
            answers = await asyncio.gather(*(self._append(result) for _, result in batch))
            durable = {token: result for (token, result), is_durable in zip(batch, answers, strict=True) if is_durable}
            for token in durable:
                del self._waiting[token]
            if durable:
                reported += len(durable)
                await self._reported(durable)
            if len(durable) < len(batch):
                if self._refusal is not None and not is_held_up:
                    is_held_up, reported = True, 0
                    _log.warning("results stay in memory until the database takes them: %s", self._refusal)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_MAX_S)
            else:
                pause_s = RETRY_FIRST_S
        if is_held_up:
            _log.warning("the database has the results that stayed in memory, %d of them", reported)
        self._refusal = None
        self._reporting = None
        self._quiet.set()

    async def _append(self, result: AttemptResult) -> bool:
        """Whether the result needs no keeping any more."""
        payloads = () if result.payload is None else (result.payload,)
        try:
            await self._store.append_attempt(row_of(result), payloads)
        except (StoreUnavailableError, OverloadedError) as error:
            fields = attempt_fields(result.token)
            _log.debug("the result of %s stays in memory: %s", result.token, error, extra=fields)
            self._refusal = error
            return False
        except ValueRefusedError as error:  # and would refuse it again: that is what becomes of the attempt
            fields = attempt_fields(result.token)
            _log.error("the result of %s can't be stored: %s", result.token, error, extra=fields)
            self._waiting[result.token] = _refused(result, error)
            return False
        return True


def _refused(result: AttemptResult, error: ValueRefusedError) -> AttemptResult:
    """The failure that stands for a result which the database does not take."""
    info = msgspec.structs.replace(error_info(error), retryable=False)
    finished = msgspec.structs.replace(result.finished, outcome="failed", output=None, output_ref=None, error=info)
    return AttemptResult(result.run_id, result.token, finished)
