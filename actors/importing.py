"""Imports export files: reads a file twice, first to judge all of it, then to write it.

Nothing is written unless every run of the file can be: the first reading checks lines, chains and payloads, folds each
journal and looks for what the database has already. Then each run is written in one transaction; an import that is
killed between two runs is simply done again.

What becomes of a run:
- its id is new here: it is written as it is, its rows byte for byte;
- it is here with the same journal (it may have grown since): it is left as it is;
- it is here with another journal: the import is refused. A journal is never overwritten.

A run that another one continues comes with that one, in the file or before: whoever asks for any run of a chain is led
to the latest, which has to be there.

An imported run is closed for execution: two databases would otherwise carry out one run. One that has not ended is
refused, or, with `closes_open`, terminated by a control of the import: one row more at its end, decided by the tick as
any other, so that the copy can be proved too. What waited for it (controls, results, messages) is answered accordingly.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from ductor.actors.errors import ImportRefusedError
from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.tick.compute import TickInputs, compute
from ductor.definitions.expressions import FunctionLibrary
from ductor.definitions.values import JsonObject
from ductor.journal.chain import link
from ductor.journal.codec import encode_events
from ductor.journal.commit import Payload
from ductor.journal.errors import UnknownEventError
from ductor.journal.events import ControlReceived
from ductor.journal.export import (
    AttemptLine,
    ControlLine,
    ExportReader,
    Line,
    MessageLine,
    PayloadLine,
    RunEnd,
    RunLine,
    TransitionLine,
)
from ductor.journal.fold import finish_row
from ductor.journal.ids import Ids, is_run_id
from ductor.journal.records import AttemptRow, Control, Head, PublishedDefinition, Transition
from ductor.journal.replay import fold_transition
from ductor.journal.state import RunState
from ductor.journal.store import Store
from ductor.journal.transfer import RunPage, StoredMessage

IMPORT_REQUEST_ID: Final = "ductor-import"
"""Id of the control that ends an imported run which was open."""

CLOSED_BY_IMPORT: Final = "imported as closed; the run goes on where it was exported"

MAX_PROBLEMS: Final = 20
"""Problems of a file that are told at once."""

PAGE_LINES: Final = 500
PAGE_BYTES: Final = 4 << 20
"""Rows are written to the database in pages of so many lines, or bytes of events and payloads."""

Lines = Callable[[], Iterable[bytes]]
"""Reads the file from its beginning."""


class ImportedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one run of the file.

    Attributes:
        is_new: it was written; False where the database had it already.
        was_closed: it had not ended, and has been terminated here.
        rows: of its journal in the file.
    """

    run_id: str
    tenant: str
    definition: str
    status: str
    rows: int
    is_new: bool
    was_closed: bool = False


class _Plan(msgspec.Struct, kw_only=True):
    """What is to become of one run."""

    head: Head
    definitions: list[PublishedDefinition]
    rows: int
    is_new: bool
    closing: RunPage | None = None


class Importer:
    """Imports one file into one store.

    Args:
        store: where to.
        file: the file's name, for errors.
        closes_open: terminate runs that have not ended, instead of refusing the file.
        functions: what expressions of the file's definitions may call; needed only where a run is terminated.
    """

    def __init__(
        self,
        store: Store,
        file: str,
        *,
        ids: Ids,
        closes_open: bool = False,
        functions: FunctionLibrary | None = None,
    ) -> None:
        self._store, self._file, self._ids, self._closes_open = store, file, ids, closes_open
        self._functions = functions

    async def run(self, lines: Lines) -> list[ImportedRun]:
        """Import everything.

        Raises:
            ExportFormatError, ImportRefusedError: nothing was written.
            ValueRefusedError: the database refuses a run; those before it in the file are written.
        """
        plans = await self._judge(lines())
        return await self._write(lines(), plans)

    # --- the first reading --------------------------------------------------------------------------------------------

    async def _judge(self, lines: Iterable[bytes]) -> dict[str, _Plan]:
        reader, plans = ExportReader(self._file), dict[str, _Plan]()
        problems: list[str] = []
        successors: dict[str, str] = {}
        now_us = await self._store.now_us()
        head: Head | None = None
        state = RunState(run_id="")
        for line, row in reader.read(lines):
            if row is not None:
                _fold(reader, state, row)
            elif isinstance(line, RunLine):
                head, state = line.head, RunState(run_id=line.head.run_id)
            elif isinstance(line, RunEnd):
                assert head is not None
                problem = await self._plan(head, state, reader.definitions, now_us, plans)
                if state.successor_run_id is not None:
                    successors[state.run_id] = state.successor_run_id
                if problem and len(problems) < MAX_PROBLEMS:
                    problems.append(f"run {state.run_id}: {problem}")
        for run_id, successor in successors.items():
            if successor not in plans and len(problems) < MAX_PROBLEMS and await self._store.head(successor) is None:
                problems.append(f"run {run_id}: run {successor} continues it, and is neither in the file nor here")
        if problems:
            raise ImportRefusedError(self._file, problems)
        return plans

    async def _plan(
        self,
        head: Head,
        state: RunState,
        known: Mapping[str, PublishedDefinition],
        now_us: int,
        plans: dict[str, _Plan],
    ) -> str:
        """Decide about one run. Returns why it can't be imported, empty when it can."""
        if not is_run_id(state.run_id):
            return "its id is no UUID in lower case with hyphens"
        if (head.tenant, head.definition, head.manifest_hash) != (state.tenant, state.definition, state.manifest_hash):
            return "its head is not what its journal says"
        missing = sorted(hash for hash in state.definitions.values() if hash not in known)
        if missing:
            return f"the definition {missing[0]} that it may start is not in the file"
        needed = [head.manifest_hash, *dict.fromkeys(state.definitions.values())]
        definitions = [msgspec.structs.replace(known[hash], tenant=head.tenant) for hash in needed]
        rows, was_open, closing = state.version, not state.is_terminal, None
        is_new = await self._store.head(state.run_id) is None
        if not is_new:
            stored = await self._store.history(state.run_id, after_version=rows - 1, limit=1)
            if not stored or stored[0].hash != state.last_hash:
                return "the database has it with another journal, and keeps that"
        elif was_open:
            if not self._closes_open:
                return (
                    f"it is {state.status} and would not go on here; import it as closed (`--as-closed`) to look at it"
                )
            closing = self._closing(state, definitions, now_us)
        plans[state.run_id] = _Plan(
            head=_head_of(state),
            definitions=definitions,
            rows=rows,
            is_new=is_new,
            closing=closing,
        )
        return ""

    def _closing(self, state: RunState, definitions: Sequence[PublishedDefinition], now_us: int) -> RunPage:
        """The row that terminates an open run. `state` becomes the one after it."""
        programs = RunPrograms.load(definitions[0], definitions[1:], self._functions)
        program = programs.program.carried_out_by(state.body)
        arguments: JsonObject = {"reason": CLOSED_BY_IMPORT}
        control = ControlReceived(request_id=IMPORT_REQUEST_ID, kind="terminate", arguments=arguments, by="import")
        last_hash = state.last_hash
        events = encode_events(compute(program, state, TickInputs(control=control), now_us, programs.library).events)
        chain_hash = link(last_hash, state.run_id, state.version, state.at_us, events)
        finish_row(state, chain_hash)
        row = Transition(
            run_id=state.run_id,
            version=state.version,
            commit_id=self._ids.commit_id(),
            at_us=state.at_us,
            events=events,
            hash=chain_hash,
        )
        request = Control(
            run_id=state.run_id,
            request_id=IMPORT_REQUEST_ID,
            kind="terminate",
            arguments=arguments,
            by="import",
            requested_at_us=state.at_us,
            disposition="applied",
        )
        return RunPage(transitions=(row,), controls=(request,))

    # --- the second reading -------------------------------------------------------------------------------------------

    async def _write(self, lines: Iterable[bytes], plans: dict[str, _Plan]) -> list[ImportedRun]:
        reader = ExportReader(self._file)
        read = reader.read(lines)
        imported: list[ImportedRun] = []
        for line, _ in read:
            if not isinstance(line, RunLine):
                continue
            plan = plans.get(line.head.run_id)
            if plan is None:
                raise reader.error("the file has changed while it was read")
            if plan.is_new and not await self._store.import_run(plan.head, plan.definitions, _pages(read, plan)):
                raise ImportRefusedError(self._file, [f"run {plan.head.run_id} has come into the database meanwhile"])
            imported.append(_imported(plan))
        return imported


def _fold(reader: ExportReader, state: RunState, row: Transition) -> None:
    try:
        fold_transition(state, row)
    except UnknownEventError as error:
        raise reader.error(str(error)) from error


def _head_of(state: RunState) -> Head:
    return Head(
        run_id=state.run_id,
        tenant=state.tenant,
        definition=state.definition,
        manifest_hash=state.manifest_hash,
        status=state.status,
        started_at_us=state.started_at_us,
        updated_at_us=state.at_us,
        ended_at_us=state.ended_at_us or None,
        key=state.key,
        parent_run_id=state.parent_run_id,
        parent_node=state.parent_node,
        compensated=state.compensated,
        chain_run_id=state.chain_run_id,
        iteration=state.iteration,
        successor_run_id=state.successor_run_id,
        root_run_id=state.root_run_id,
        error_type=state.error.type if state.error is not None else None,
        search_attributes=state.search_attributes,
    )


def _imported(plan: _Plan) -> ImportedRun:
    return ImportedRun(
        run_id=plan.head.run_id,
        tenant=plan.head.tenant,
        definition=plan.head.definition,
        status=plan.head.status,
        rows=plan.rows,
        is_new=plan.is_new,
        was_closed=plan.closing is not None,
    )


async def _pages(read: Iterator[tuple[Line, Transition | None]], plan: _Plan) -> AsyncIterator[RunPage]:
    """The rows of the run that has begun, up to its end."""
    page, closing = _PageInTheMaking(), plan.closing
    for line, row in read:
        if isinstance(line, RunEnd):
            break
        if closing is not None and not isinstance(line, PayloadLine | TransitionLine):
            yield page.done()
            yield closing  # the last row and the last control come where each kind ends
            closing = None
        page.add(line, row)
        if page.is_full:
            yield page.done()
    yield page.done()
    if closing is not None:
        yield closing


class _PageInTheMaking:
    """Gathers lines until there are enough for one page."""

    def __init__(self) -> None:
        self._payloads: list[Payload] = []
        self._transitions: list[Transition] = []
        self._attempts: list[AttemptRow] = []
        self._controls: list[Control] = []
        self._messages: list[StoredMessage] = []
        self._lines = self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether it has as much as a page may have."""
        return self._lines >= PAGE_LINES or self._bytes >= PAGE_BYTES

    def add(self, line: Line, row: Transition | None) -> None:
        """Take a line in; what waited for the run is answered."""
        self._lines += 1
        if row is not None:
            self._bytes += len(row.events)
            self._transitions.append(row)
        elif isinstance(line, PayloadLine):
            self._bytes += len(line.text)
            self._payloads.append(Payload(line.hash, line.text.encode()))
        elif isinstance(line, AttemptLine):
            self._attempts.append(_settled_attempt(line.row))
        elif isinstance(line, ControlLine):
            self._controls.append(_settled_control(line.row))
        elif isinstance(line, MessageLine):
            self._messages.append(_settled_message(line.row))

    def done(self) -> RunPage:
        """What was gathered; the next page is empty again."""
        page = RunPage(
            payloads=tuple(self._payloads),
            transitions=tuple(self._transitions),
            attempts=tuple(self._attempts),
            controls=tuple(self._controls),
            messages=tuple(self._messages),
        )
        for gathered in (self._payloads, self._transitions, self._attempts, self._controls, self._messages):
            gathered.clear()
        self._lines = self._bytes = 0
        return page


def _settled_attempt(row: AttemptRow) -> AttemptRow:
    return row if row.disposition else msgspec.structs.replace(row, disposition="superseded")


def _settled_control(row: Control) -> Control:
    if row.disposition:
        return row
    return msgspec.structs.replace(row, disposition="refused", outcome=CLOSED_BY_IMPORT)


def _settled_message(row: StoredMessage) -> StoredMessage:
    return row if row.disposition not in {"", "buffered"} else msgspec.structs.replace(row, disposition="undelivered")
