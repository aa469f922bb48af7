"""The group appender: results of many attempts, gathered into one statement.

What is appended while a statement runs goes with the next one, so that a busy worker pays for one write to the log
where it has many results. A group whose content is refused is sent again one by one: each learns of its own.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from ductor.journal.commit import Payload
from ductor.journal.errors import ValueRefusedError
from ductor.journal.postgres.database import Database
from ductor.journal.postgres.rows import json_text
from ductor.journal.records import AttemptRow

GROUP_ROWS: Final = 200
GROUP_BYTES: Final = 4 * 1024 * 1024
"""Large values that go with one statement, unless a single row has more."""
GROUPS_AT_ONCE: Final = 2

Key = tuple[str, str, int]


class Waiting(msgspec.Struct):
    """A result, and who waits for it to be durable."""

    row: AttemptRow
    payloads: tuple[Payload, ...]
    futures: list[asyncio.Future[None]]


class AttemptAppender:
    """Appends attempt rows. All methods belong to the loop's thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[Key, Waiting] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_work = 0

    async def append(self, row: AttemptRow, payloads: Sequence[Payload]) -> None:
        """Store a result; the first row of an attempt stays. Raises StoreUnavailableError, ValueRefusedError."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        key = (row.run_id, row.node, row.generation)
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = Waiting(row, tuple(payloads), [future])
        else:
            waiting.futures.append(future)
        if self._at_work < GROUPS_AT_ONCE:
            self._at_work += 1
            task = asyncio.create_task(self._append_waiting(), name="ductor attempt appender")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await future

    async def _append_waiting(self) -> None:
        try:
            while self._waiting:
                await self._append(self._next_group())
        finally:
            # here and not when the task is known to be done: who comes in between would wait for nobody
            self._at_work -= 1

    def _next_group(self) -> list[Waiting]:
        group: list[Waiting] = []
        size_bytes = 0
        while self._waiting and len(group) < GROUP_ROWS:
            key, waiting = next(iter(self._waiting.items()))
            size_bytes += sum(len(payload.text) for payload in waiting.payloads)
            if group and size_bytes > GROUP_BYTES:
                break
            del self._waiting[key]
            group.append(waiting)
        return group

    async def _append(self, group: list[Waiting]) -> None:
        try:
            await self._database.fetch("append_attempts", **_columns(group))
        except ValueRefusedError as error:
            if len(group) == 1:
                _settle(group, error)
            else:
                for waiting in group:
                    await self._append([waiting])
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to those who wait
            _settle(group, error)
        else:
            _settle(group, None)


def _settle(group: list[Waiting], error: Exception | None) -> None:
    for future in (future for waiting in group for future in waiting.futures if not future.done()):
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def _columns(group: list[Waiting]) -> dict[str, object]:
    rows = [waiting.row for waiting in group]
    beside = [(waiting.row, payload) for waiting in group for payload in waiting.payloads]
    return {
        "run_ids": [row.run_id for row in rows],
        "nodes": [row.node for row in rows],
        "generations": [row.generation for row in rows],
        "outcomes": [row.outcome for row in rows],
        "outputs": [json_text(row.output) for row in rows],
        "output_refs": [json_text(row.output_ref) for row in rows],
        "errors": [json_text(row.error) for row in rows],
        "workers": [row.worker for row in rows],
        "starts": [row.started_at_us for row in rows],
        "ends": [row.finished_at_us for row in rows],
        "dispositions": [row.disposition for row in rows],
        "payload_run_ids": [row.run_id for row, _ in beside],
        "payload_nodes": [row.node for row, _ in beside],
        "payload_generations": [row.generation for row, _ in beside],
        "payload_hashes": [payload.hash for _, payload in beside],
        "payload_bodies": [payload.text.decode() for _, payload in beside],
    }
