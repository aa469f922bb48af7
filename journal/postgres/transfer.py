"""Pages of one run for exports, and the way in for a closed run."""

from collections.abc import AsyncIterable, Sequence

import asyncpg
import msgspec

from ductor.journal.commit import Payload
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import Message
from ductor.journal.ids import is_run_id
from ductor.journal.postgres.database import Database, Fetch, fetch_on
from ductor.journal.postgres.reader import decode_attempt, decode_control
from ductor.journal.postgres.rows import json_text
from ductor.journal.records import AttemptRow, Control, Head, PublishedDefinition, Transition
from ductor.journal.transfer import RunPage, StoredMessage, check_closed

_decode_message = msgspec.json.Decoder(Message).decode


class Transfer:
    """Everything of one run, and a whole run at once."""

    _database: Database

    async def payload_page(self, run_id: str, *, after_hash: str = "", limit: int) -> Sequence[Payload]:
        """Large values of a run, in order of hash."""
        if not is_run_id(run_id):
            return []
        rows = await self._database.fetch("payload_page", run_id=run_id, after_hash=after_hash, limit=limit)
        return [Payload(row[0], row[1].encode()) for row in rows]

    async def attempt_page(self, run_id: str, *, after: tuple[str, int] = ("", 0), limit: int) -> Sequence[AttemptRow]:
        """Attempt rows of a run, in order of node and generation."""
        if not is_run_id(run_id):
            return []
        node, generation = after
        rows = await self._database.fetch(
            "attempt_page", run_id=run_id, after_node=node, after_generation=generation, limit=limit
        )
        return [decode_attempt(row[0]) for row in rows]

    async def control_page(self, run_id: str, *, after_request_id: str = "", limit: int) -> Sequence[Control]:
        """Requests to a run in the order of their arrival, after the one of this id."""
        if not is_run_id(run_id):
            return []
        rows = await self._database.fetch("control_page", run_id=run_id, after_request_id=after_request_id, limit=limit)
        return [decode_control(row[0]) for row in rows]

    async def message_page(self, run_id: str, *, after_position: int = 0, limit: int) -> Sequence[StoredMessage]:
        """Messages to a run, in order of position."""
        if not is_run_id(run_id):
            return []
        rows = await self._database.fetch("message_page", run_id=run_id, after_position=after_position, limit=limit)
        return [StoredMessage(message=_decode_message(row[0]), disposition=row[1], version=row[2]) for row in rows]

    async def import_run(
        self, head: Head, definitions: Sequence[PublishedDefinition], pages: AsyncIterable[RunPage]
    ) -> bool:
        """Write a closed run and all its rows in one transaction; False, and nothing written, where the run exists."""
        check_closed(head)
        if not is_run_id(head.run_id):
            raise ValueRefusedError("run_id", "", "it is no UUID in lower case with hyphens")
        async with self._database.transaction() as connection:
            fetch = fetch_on(connection)
            try:
                return await _import_run(fetch, head, definitions, pages)
            except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, UnicodeEncodeError) as error:
                raise ValueRefusedError(f"run {head.run_id}", "", str(error)) from error


async def _import_run(
    fetch: Fetch, head: Head, definitions: Sequence[PublishedDefinition], pages: AsyncIterable[RunPage]
) -> bool:
    values = msgspec.structs.asdict(head)
    if not await fetch("import_head", **{**values, "search_attributes": json_text(head.search_attributes)}):
        return False
    if head.chain_run_id is not None or head.status == "continued":
        await fetch("import_chain", run_id=head.run_id, chain_run_id=head.chain_run_id, iteration=head.iteration)
    for definition in definitions:
        values = msgspec.structs.asdict(definition)
        texts = {"manifest": definition.manifest.decode(), "places": definition.places.decode()}
        await fetch("import_definition", **{**values, **texts})
    async for page in pages:
        await _import_page(fetch, head.run_id, page)
    return True


async def _import_page(fetch: Fetch, run_id: str, page: RunPage) -> None:
    if page.payloads:
        hashes, bodies = [one.hash for one in page.payloads], [one.text.decode() for one in page.payloads]
        await fetch("import_payloads", run_id=run_id, hashes=hashes, bodies=bodies)
    if page.transitions:
        await _import_transitions(fetch, run_id, page.transitions)
    if page.attempts:
        await _import_attempts(fetch, run_id, page.attempts)
    if page.controls:
        await _import_controls(fetch, run_id, page.controls)
    if page.messages:
        await _import_messages(fetch, run_id, page.messages)


async def _import_transitions(fetch: Fetch, run_id: str, rows: Sequence[Transition]) -> None:
    await fetch(
        "import_transitions",
        run_id=run_id,
        versions=[row.version for row in rows],
        commit_ids=[row.commit_id for row in rows],
        times_us=[row.at_us for row in rows],
        events=[row.events.decode() for row in rows],
        hashes=[row.hash for row in rows],
    )


async def _import_attempts(fetch: Fetch, run_id: str, rows: Sequence[AttemptRow]) -> None:
    await fetch(
        "import_attempts",
        run_id=run_id,
        nodes=[row.node for row in rows],
        generations=[row.generation for row in rows],
        outcomes=[row.outcome for row in rows],
        outputs=[json_text(row.output) for row in rows],
        output_refs=[json_text(row.output_ref) for row in rows],
        errors=[json_text(row.error) for row in rows],
        workers=[row.worker for row in rows],
        started=[row.started_at_us for row in rows],
        finished=[row.finished_at_us for row in rows],
        dispositions=[row.disposition for row in rows],
    )


async def _import_controls(fetch: Fetch, run_id: str, rows: Sequence[Control]) -> None:
    await fetch(
        "import_controls",
        run_id=run_id,
        request_ids=[row.request_id for row in rows],
        kinds=[row.kind for row in rows],
        arguments=[json_text(row.arguments) for row in rows],
        bys=[row.by for row in rows],
        times_us=[row.requested_at_us for row in rows],
        dispositions=[row.disposition for row in rows],
        outcomes=[row.outcome for row in rows],
    )


async def _import_messages(fetch: Fetch, run_id: str, rows: Sequence[StoredMessage]) -> None:
    messages = [row.message for row in rows]
    await fetch(
        "import_messages",
        run_id=run_id,
        message_ids=[message.id for message in messages],
        kinds=[message.kind for message in messages],
        names=[message.name for message in messages],
        nodes=[message.node for message in messages],
        payloads=[json_text(message.payload) for message in messages],
        payload_refs=[json_text(message.payload_ref) for message in messages],
        bys=[message.by for message in messages],
        times_us=[message.at_us for message in messages],
        dispositions=[row.disposition for row in rows],
        versions=[row.version for row in rows],
    )
