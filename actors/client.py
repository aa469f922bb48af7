"""What anybody can ask of the engine with nothing but its database: publish, start, look, request, wait.

A run started here is `pending` until a host finds it. `ductor.actors.host.EngineHost` is a client too, one that carries
runs out.
"""

import asyncio
import difflib
import uuid
from collections.abc import Sequence

import msgspec

from ductor.actors.bulk_controls import BulkRequests
from ductor.actors.child_definitions import resolved_definitions
from ductor.actors.children_of_steps import ChildrenPage, ChildStepStatus, children_page
from ductor.actors.errors import (
    ControlRefusedError,
    DefinitionNotFoundError,
    ManifestMissingError,
    NotAScatterError,
    RunNotFoundError,
    UnsupportedDefinitionError,
    WaitTimeoutError,
)
from ductor.actors.explain import Explanation, explain
from ductor.actors.lineage import MAX_TREE_RUNS, RunTree, run_tree
from ductor.actors.messaging import Messaging
from ductor.actors.publication import places_of, publication
from ductor.actors.queue.distributed import DistributedQueue
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.queued_attempts import queued_attempts
from ductor.actors.reasons.leases import nodes_with_a_line
from ductor.actors.start import DEFAULT_TENANT, checked_key, checked_run_id, checked_traceparent, first_event
from ductor.actors.steps import RUNNABLE_TYPES
from ductor.actors.sweeper import HOST_ALIVE_MS
from ductor.actors.triggers import triggers_of
from ductor.actors.views import HistoryRow, RunOutcome, RunView, Started, history_row, outcome_of, run_view
from ductor.definitions.compile import Compiled
from ductor.definitions.expressions import FunctionLibrary
from ductor.definitions.manifest import decode_manifest
from ductor.definitions.program import Program, load_program
from ductor.definitions.program_bodies import carried_out
from ductor.definitions.steps.scatter import ScatterStep
from ductor.definitions.unsupported import refuse_unsupported
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.chain import link
from ductor.journal.clock import Clock
from ductor.journal.codec import checked_value, encode_events
from ductor.journal.commit import (
    Appended,
    Commit,
    CommitAnswer,
    HeadStart,
    Payload,
    Refused,
    StartKeyTaken,
)
from ductor.journal.events import TERMINAL_RUN_STATUSES, AnyEvent, ControlKind, RunStarted, TickLimited
from ductor.journal.ids import Ids
from ductor.journal.lease_store import LeaseEntry, LeasePlace
from ductor.journal.records import (
    Control,
    ControlReceipt,
    Head,
    HostRecord,
    LoadedRun,
    PublishedDefinition,
    RunFilter,
)
from ductor.journal.replay import loaded_state
from ductor.journal.set_aside_store import SetAsideRun
from ductor.journal.store import Store
from ductor.journal.worker_store import WorkerRecord

POLL_S = 0.1
"""How often a client that hosts nothing looks whether a run has ended."""


class Client(Messaging, BulkRequests):
    """See the module's docstring. All methods raise StoreUnavailableError when the database can't be reached.

    Attributes:
        queue: what takes work to other processes, where it is open; else it is opened when something is asked of it.
        redis: the first tier of that queue.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        ids: Ids,
        functions: FunctionLibrary | None = None,
        redis: RedisSettings | None = None,
    ) -> None:
        self.store, self.clock, self.ids, self.functions = store, clock, ids, functions
        self.queue: DistributedQueue | None = None
        self.redis = redis

    async def publish(
        self, compiled: Compiled, *, tenant: str = DEFAULT_TENANT, source: str = ""
    ) -> PublishedDefinition:
        """Make a definition known, so that runs can be started. Idempotent by its hash.

        Args:
            source: the text it came from, kept for people.

        Raises:
            UnsupportedDefinitionError: it uses step types or features that this version can't run.
        """
        problems = refuse_unsupported(compiled, RUNNABLE_TYPES)
        if problems:
            raise UnsupportedDefinitionError(compiled.manifest.name, problems)
        record = publication(compiled, tenant=tenant, source=source, now_us=self.clock.now_us())
        await self.store.publish(record)
        triggers = triggers_of(compiled.manifest, compiled.manifest_hash, tenant, self.clock.now_us())
        await self.store.replace_triggers(tenant, compiled.manifest.name, triggers)
        return record

    async def unpublish(self, name: str, *, tenant: str = DEFAULT_TENANT) -> int:
        """Withdraw all versions of a definition from new starts; running runs keep theirs. How many there were."""
        await self.store.replace_triggers(tenant, name, ())
        return await self.store.unpublish(tenant, name)

    async def start(
        self,
        name: str,
        trigger: JsonValue = None,
        *,
        tenant: str = DEFAULT_TENANT,
        key: str | None = None,
        version: str | None = None,
        manifest_hash: str | None = None,
        traceparent: str | None = None,
    ) -> Started:
        """Start a run of the newest published version, or of the one with this label or hash.

        Args:
            key: makes the start idempotent: a second one in the same tenant and definition gives the first one's run.
            traceparent: the caller's place in a trace, by W3C Trace Context; None for what the process knows of it.

        Raises:
            DefinitionNotFoundError: also of a definition that the run may start.
            TriggerError, ValueRefusedError, StartRefusedError, OverloadedError: nothing was
                written.
        """
        program = await self._program_to_start(name, tenant=tenant, version=version, manifest_hash=manifest_hash)
        definitions = await self._definitions_of_children(program, tenant)
        run_id, now_us = self._new_run_id(), await self._time_us()
        started, payloads = first_event(
            program, run_id, now_us, trigger, tenant=tenant, key=key, definitions=definitions
        )
        trace = self.new_traceparent(run_id) if traceparent is None else checked_traceparent(traceparent)
        if trace:
            started = msgspec.structs.replace(started, traceparent=trace)
        begun = await self._begin(run_id, now_us, started, payloads)
        if begun.is_new:
            return begun
        # a run that the caller's own transaction has started is not to be seen yet
        latest = await self.store.latest_of_chain(begun.run_id)
        return Started(latest or begun.run_id, is_new=False)

    async def view(self, run_id: str, *, tenant: str | None = None, follows: bool = True) -> RunView:
        """A run as its journal tells; the latest of its chain, unless `follows` is False. Raises RunNotFoundError."""
        loaded, record = await self._run_and_manifest(run_id, tenant, follows=follows)
        state = loaded_state(loaded)
        return run_view(loaded.head, state, carried_out(decode_manifest(record.manifest), state.body))

    async def children_of_step(
        self,
        run_id: str,
        ref: str,
        *,
        after: int = -1,
        limit: int = 100,
        status: ChildStepStatus | None = None,
        tenant: str | None = None,
        follows: bool = True,
    ) -> ChildrenPage:
        """A page of a scatter's children, in the order of the items, also while they run.

        Args:
            after: index of the last child of the page before.
            status: only those.
            follows: of a run that others continue those of the latest one; else of this very run.

        Raises:
            RunNotFoundError: there is no such run.
            NotAScatterError: the run has no scatter of this name.
        """
        loaded, record = await self._run_and_manifest(run_id, tenant, follows=follows)
        state, program = loaded_state(loaded), self._program(record)
        step = program.carried_out_by(state.body).nodes.get(ref)
        if step is None or not isinstance(step.step, ScatterStep):
            raise NotAScatterError(run_id, ref)
        return children_page(state, ref, after=after, limit=limit, status=status)

    async def explain(self, run_id: str, *, tenant: str | None = None, follows: bool = True) -> Explanation:
        """Why a run does not move, or why it ended as it did; as `view`. Raises RunNotFoundError."""
        loaded, record = await self._run_and_manifest(run_id, tenant, follows=follows)
        state = loaded_state(loaded)
        lines = {
            ref: line
            for ref in nodes_with_a_line(state)
            if (line := await self.store.lease_line(state.run_id, ref)) is not None
        }
        return explain(
            state,
            self._program(record).carried_out_by(state.body),
            hosts=await self.hosts(),
            now_us=await self.store.now_us(),
            set_aside=await self._why_set_aside(loaded.head.run_id),
            lease_lines=lines,
            workers=await self.workers(),
            queued=await queued_attempts(state, self.store, self.queue, self.redis),
        )

    async def hosts(self) -> Sequence[HostRecord]:
        """Hosts that live, by their heartbeats, in order of id."""
        return await self.store.hosts(alive_within_ms=HOST_ALIVE_MS)

    async def workers(self) -> Sequence[WorkerRecord]:
        """Workers that live, by their heartbeats, in order of id."""
        return await self.store.workers()

    async def runs_set_aside(
        self, *, tenant: str | None = None, after_run_id: str | None = None, limit: int = 100
    ) -> Sequence[SetAsideRun]:
        """Runs that hosts leave alone until somebody releases them, in order of id."""
        return await self.store.runs_set_aside(tenant, after_run_id, limit)

    async def release(self, run_id: str, *, tenant: str | None = None) -> bool:
        """Let hosts take up a run again that was set aside; the host that did it does so within seconds. False if it
        was not set aside. Raises RunNotFoundError."""
        head = await self.store.head(checked_run_id(run_id))
        if head is None or tenant not in {None, head.tenant}:
            raise RunNotFoundError(run_id)
        return await self.store.release_run(run_id)

    async def leases(
        self,
        *,
        tenant: str | None = None,
        key: str | None = None,
        run_id: str | None = None,
        after: LeasePlace | None = None,
        limit: int = 100,
    ) -> Sequence[LeaseEntry]:
        """Who holds leases and who waits for them, a page in order of tenant, key and the time of asking.

        Args:
            after: tenant, key and position of the last entry of the page before.
        """
        return await self.store.leases(tenant=tenant, key=key, run_id=run_id, after=after, limit=limit)

    async def history(self, run_id: str, *, after_version: int = 0, limit: int = 1_000) -> list[HistoryRow]:
        """Rows of a run's own journal, in order; `chain_history` gives those of its whole chain.

        Raises RunNotFoundError.
        """
        head = await self.store.head(checked_run_id(run_id))
        if head is None:
            raise RunNotFoundError(run_id)
        rows = await self.store.history(head.run_id, after_version=after_version, limit=limit)
        return [history_row(row, head.iteration) for row in rows]

    async def runs(self, which: RunFilter) -> Sequence[Head]:
        """Runs, newest first."""
        return await self.store.heads(which)

    async def tree(self, run_id: str, *, tenant: str | None = None, limit: int = MAX_TREE_RUNS) -> RunTree:
        """A run and all that it has started, at any depth; of `limit` runs at most. Raises RunNotFoundError."""
        return await run_tree(self.store, checked_run_id(run_id), tenant=tenant, limit=limit)

    async def request(
        self,
        run_id: str,
        kind: ControlKind,
        *,
        request_id: str | None = None,
        arguments: JsonObject | None = None,
        by: str = "",
        tenant: str | None = None,
    ) -> ControlReceipt:
        """Ask something of a run, durably. A repeated `request_id` gives the first one's receipt.

        Raises:
            RunNotFoundError: there is no such run.
            ControlRefusedError: the run has ended.
        """
        checked = checked_value(arguments or {}, f"arguments of {kind}")
        assert isinstance(checked, dict)
        control = Control(
            run_id=checked_run_id(run_id),
            request_id=checked_key(request_id, "request id") if request_id is not None else str(uuid.uuid4()),
            kind=kind,
            arguments=checked,
            by=by,
            requested_at_us=self.clock.now_us(),
        )
        receipt = await self.store.request_control(control, tenant=tenant)
        if receipt is None:
            raise RunNotFoundError(run_id)
        if receipt.verdict == "refused":
            raise ControlRefusedError(run_id, kind, receipt.reason)
        self._requested(receipt.run_id)
        return receipt

    async def outcome(self, run_id: str, *, timeout_ms: int | None = None) -> RunOutcome:
        """Wait for a run's end; of a chain for that of its latest run. Raises RunNotFoundError, WaitTimeoutError."""
        awaited = checked_run_id(run_id)
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1_000):
                while True:
                    outcome = await self._wait_for_end(awaited)
                    if outcome.status != "continued":
                        return outcome
                    latest = await self.latest(awaited)
                    if latest == awaited:  # a database may have been given a part of the chain alone
                        raise RunNotFoundError(outcome.successor_run_id or awaited)
                    awaited = latest
        except TimeoutError:
            raise WaitTimeoutError(run_id, timeout_ms or 0) from None

    async def ended(self, run_id: str) -> RunOutcome | None:
        """How a run itself ended (`continued`, where another one continues it); None when it has not.

        Raises RunNotFoundError.
        """
        head = await self.store.head(checked_run_id(run_id))
        if head is None:
            raise RunNotFoundError(run_id)
        if head.status not in TERMINAL_RUN_STATUSES:
            return None
        loaded = await self.store.load(run_id)
        if loaded is None:
            raise RunNotFoundError(run_id)
        return outcome_of(loaded_state(loaded))

    # --- what a host does otherwise -----------------------------------------------------------------------------------

    def new_traceparent(self, run_id: str) -> str:  # noqa: ARG002 - a host's observers need it
        """The trace context of a run that starts now; empty where nobody traces."""
        return ""

    def _new_run_id(self) -> str:
        return self.ids.run_id()

    async def _time_us(self) -> int:
        """The database's time: nobody corrects this machine's clock, and a run never goes back before its start."""
        return await self.store.now_us()

    async def _wait_for_end(self, run_id: str) -> RunOutcome:
        while True:
            outcome = await self.ended(run_id)
            if outcome is not None:
                return outcome
            await asyncio.sleep(POLL_S)

    async def _begin(
        self, run_id: str, now_us: int, started: RunStarted, payloads: list[tuple[Payload, JsonValue]]
    ) -> Started:
        """Write head and first row; a host decides the rest."""
        events: list[AnyEvent] = [started, TickLimited()]
        text = encode_events(events)
        commit = Commit(
            run_id=run_id,
            version=1,
            commit_id=self.ids.commit_id(),
            at_us=now_us,
            events=text,
            hash=link(b"", run_id, 1, now_us, text),
            start=HeadStart(
                tenant=started.tenant,
                definition=started.definition,
                manifest_hash=started.manifest_hash,
                status="pending",
                started_at_us=now_us,
                key=started.key,
                search_attributes=started.search_attributes,
            ),
            payloads=tuple(payload for payload, _ in payloads),
        )
        result = await self._append(commit)
        if isinstance(result, Appended):
            return Started(run_id, is_new=True)
        if isinstance(result, StartKeyTaken):
            return Started(result.run_id, is_new=False)
        if isinstance(result, Refused):
            raise result.error
        raise AssertionError(f"run {run_id}: a fresh run id was taken")

    async def _append(self, commit: Commit) -> CommitAnswer:
        answer: asyncio.Future[CommitAnswer] = asyncio.get_running_loop().create_future()
        # who started it may have given up meanwhile
        self.store.commit(commit, lambda result: None if answer.done() else answer.set_result(result))
        return await answer

    async def _definitions_of_children(self, program: Program, tenant: str) -> dict[str, str]:
        """What `resolved_definitions` gives for a run that starts now."""

        async def find(name: str) -> Program:
            return await self._program_to_start(name, tenant=tenant, version=None, manifest_hash=None)

        return await resolved_definitions(program, find)

    async def published_definition(
        self, name: str, *, tenant: str, version: str | None = None, manifest_hash: str | None = None
    ) -> PublishedDefinition:
        """The newest of this name, or the one with this label or hash. Raises DefinitionNotFoundError."""
        record = await self.store.definition(tenant, name, version=version, manifest_hash=manifest_hash)
        if record is None:
            known = sorted({definition.name for definition in await self.store.definitions(tenant)})
            nearest = difflib.get_close_matches(name, [other for other in known if other != name], n=1)
            raise DefinitionNotFoundError(
                tenant, name, version=version, manifest_hash=manifest_hash, nearest=nearest[0] if nearest else ""
            )
        return record

    async def _program_to_start(
        self, name: str, *, tenant: str, version: str | None, manifest_hash: str | None
    ) -> Program:
        record = await self.published_definition(name, tenant=tenant, version=version, manifest_hash=manifest_hash)
        return self._program(record)

    def _program(self, record: PublishedDefinition) -> Program:
        return load_program(decode_manifest(record.manifest), places=places_of(record), functions=self.functions)

    async def _run_and_manifest(
        self, run_id: str, tenant: str | None, *, follows: bool
    ) -> tuple[LoadedRun, PublishedDefinition]:
        """Raises RunNotFoundError, ManifestMissingError."""
        loaded = await self._loaded(run_id, tenant, follows=follows)
        record = await self.store.manifest(loaded.head.manifest_hash)
        if record is None:
            raise ManifestMissingError(loaded.head.manifest_hash)
        return loaded, record

    async def _why_set_aside(self, run_id: str) -> str | None:
        """Why hosts leave a run alone."""
        mark = await self.store.run_set_aside(run_id)
        return None if mark is None else mark.reason

    def _requested(self, run_id: str) -> None:
        """A control was stored: a host that has the run acts at once, others find it by their sweeper."""
