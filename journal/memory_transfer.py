"""What the memory store gives to exports and takes from imports."""

from collections.abc import AsyncIterable, Sequence
from itertools import dropwhile, islice

from ductor.journal.admission import check_json
from ductor.journal.codec import checked_value
from ductor.journal.commit import HeadStart, Payload
from ductor.journal.memory_definitions import DefinitionRows
from ductor.journal.memory_messages import MemoryMessages, RunMessages
from ductor.journal.memory_rows import RunRows, check_start
from ductor.journal.records import AttemptRow, Control, Head, PublishedDefinition
from ductor.journal.transfer import RunPage, StoredMessage, check_closed


class MemoryTransfer(MemoryMessages):
    """Pages of one run, and the way in for a closed one."""

    _definitions: DefinitionRows

    async def payload_page(self, run_id: str, *, after_hash: str = "", limit: int) -> Sequence[Payload]:
        """Large values of a run, in order of hash."""
        run = self._run(run_id)
        hashes = sorted(hash for hash in (run.payloads if run else ()) if hash > after_hash)
        return [Payload(hash, run.payloads[hash]) for hash in hashes[:limit]] if run else []

    async def attempt_page(self, run_id: str, *, after: tuple[str, int] = ("", 0), limit: int) -> Sequence[AttemptRow]:
        """Attempt rows of a run, in order of node and generation."""
        run = self._run(run_id)
        return [] if run is None else run.read_attempts(sorted(key for key in run.attempts if key > after)[:limit])

    async def control_page(self, run_id: str, *, after_request_id: str = "", limit: int) -> Sequence[Control]:
        """Requests to a run in the order of their arrival, after the one of this id."""
        run = self._run(run_id)
        if run is None:
            return []
        ids = iter(run.controls)
        if after_request_id:
            ids = islice(dropwhile(lambda request_id: request_id != after_request_id, ids), 1, None)
        return [control for request_id in islice(ids, limit) if (control := run.read_control(request_id))]

    async def message_page(self, run_id: str, *, after_position: int = 0, limit: int) -> Sequence[StoredMessage]:
        """Messages to a run, in order of position."""
        self._check_open()
        messages = self._messages.get(run_id)
        return [] if messages is None else messages.read_page(after_position, limit)

    async def import_run(
        self, head: Head, definitions: Sequence[PublishedDefinition], pages: AsyncIterable[RunPage]
    ) -> bool:
        """Write a closed run and all its rows; False, and nothing written, where the run exists."""
        check_closed(head)
        if self._run(head.run_id) is not None:
            return False
        run, messages = _imported_rows(head), RunMessages(head.run_id)
        async for page in pages:
            _add_page(run, page)
            for stored in page.messages:
                position = next(self._message_positions)
                messages.restore(stored, position)
        if self._run(head.run_id) is not None:
            return False
        self._runs[head.run_id] = run
        self._messages[head.run_id] = messages
        for definition in definitions:
            self._definitions.keep(definition, self._clock.now_us())
        self._imported(run)
        return True

    def _imported(self, run: RunRows) -> None:
        """The run is there: the store's lists of runs and its feed have to know."""
        raise NotImplementedError


def _imported_rows(head: Head) -> RunRows:
    start = HeadStart(
        tenant=head.tenant,
        definition=head.definition,
        manifest_hash=head.manifest_hash,
        status=head.status,
        started_at_us=head.started_at_us,
        key=head.key,
        parent_run_id=head.parent_run_id,
        parent_node=head.parent_node,
        compensated=head.compensated,
        root_run_id=head.root_run_id,
        chain_run_id=head.chain_run_id,
        iteration=head.iteration,
        successor_run_id=head.successor_run_id,
        search_attributes=head.search_attributes,
        ended_at_us=head.ended_at_us,
        error_type=head.error_type,
    )
    check_start(head.run_id, start)
    return RunRows(head.run_id, start, head.updated_at_us)


def _add_page(run: RunRows, page: RunPage) -> None:
    for payload in page.payloads:
        check_json(payload.text, "payload")
    for transition in page.transitions:
        check_json(transition.events, "events")
    run.add_payloads(page.payloads)
    for transition in page.transitions:
        run.add_transition(transition)
    for attempt in page.attempts:
        checked_value(attempt.output, "output")
        run.add_attempt(attempt)
    for control in page.controls:
        checked_value(control.arguments, "arguments")
        run.restore_control(control)
