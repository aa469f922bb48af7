# ruff: noqa: SLF001 - a planted bug reaches inside
"""Bugs planted into the store."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec

from ductor.journal.commit import Appended, Commit
from ductor.journal.events import Message
from ductor.journal.memory import MemoryStore
from ductor.journal.memory_messages import MemoryMessages
from ductor.journal.memory_rows import RunRows
from scripts.simulation.connection import Connection
from scripts.simulation.database import SimulatedDatabase
from scripts.simulation.planted.planting import planted, replaced


@planted("the version check is skipped: the later of two writers of one version writes the next one")
def _version_unchecked() -> Iterator[None]:
    write = MemoryStore._write

    def lax(self: MemoryStore, commit: Commit) -> Any:
        run = self._runs.get(commit.run_id)
        if run is not None and commit.version > 1 and run.commit_id(commit.version) != commit.commit_id:
            commit = msgspec.structs.replace(commit, version=run.version + 1)
        return write(self, commit)

    with replaced(MemoryStore, "_write", lax):
        yield


@planted("a commit is answered before it is durable")
def _answered_before_durable() -> Iterator[None]:
    arrive = Connection._arrive

    def early(self: Connection, pending: Any) -> None:
        if pending.commit.start is None and not pending.commit.controls:
            answer, pending.answer = pending.answer, lambda _answer: None
            asyncio.get_running_loop().call_soon(
                answer, Appended(pending.commit.version), context=self._lane.context.copy()
            )
        arrive(self, pending)

    with replaced(Connection, "_arrive", early):
        yield


@planted("a commit that is sent again is not recognised by its id")
def _commit_id_forgotten() -> Iterator[None]:
    def forgetful(_self: RunRows, _version: int) -> None:
        return None

    with replaced(RunRows, "commit_id", forgetful):
        yield


@planted("a message that is sent twice under one id is stored twice")
def _message_not_deduplicated() -> Iterator[None]:
    send_message = MemoryMessages.send_message

    async def lax(self: Any, run_id: str, message: Message, *others: Any, **named: Any) -> Any:
        known = self._messages.get(run_id)
        receipt = known.receipts.pop(message.id, None) if known is not None else None
        answer = await send_message(self, run_id, message, *others, **named)
        if receipt is not None and known is not None:
            known.receipts.setdefault(message.id, receipt)
        return answer

    with replaced(MemoryMessages, "send_message", lax):
        yield


@planted("events reach the waits of all tenants")
def _tenants_mixed() -> Iterator[None]:
    call = SimulatedDatabase.call

    def lax(self: SimulatedDatabase, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if name == "deliver_event":
            event = arguments[0]
            for tenant in sorted({run.head.tenant for run in self._runs.values()}):
                twin = msgspec.structs.replace(event, tenant=tenant)
                hearing = {run for run, _, _ in self._waits if self._runs[run].head.tenant == tenant}
                if tenant != event.tenant:
                    call(self, name, (twin, sorted(hearing)), named)
        return call(self, name, arguments, named)

    with replaced(SimulatedDatabase, "call", lax):
        yield
