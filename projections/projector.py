"""The projector: fills read models from the journal of all runs, in commit order, each row once.

Every generation of every projection has a checkpoint, its place in the feed. Those that stand at one place are a
*group*: they share one read of the feed and one decoding. The built-in ones share one transaction, too, with a
savepoint for each; one that somebody else has written has its own, since nobody knows what it does to a transaction. A
turn carries each group on by one batch, cut where the next group stands, so that one that has fallen behind joins the
others again.

Invariants:
- A model and its checkpoint change in one transaction, which locks the checkpoint and compares it with the place from
  which the batch was read. Where it does not fit, somebody else has been there: the batch is dropped and claimed anew.
- The feed never steps over a transaction that may still commit, so nothing is skipped.

Failure cases:
- The connection, or the whole server, is lost: the transaction has happened or not; checkpoints are read again, after a
  pause that grows.
- A projection fails on a batch: its savepoint is rolled back, the others go on without it. It comes again with half as
  many rows, until one row alone fails; that row and the error are noted, and it stands still until `retry` or
  `rebuild`.
- A projection ends the transaction that it was given: it stands still at once.
- The host dies: its claim runs out, and another host goes on from the checkpoints.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import asyncpg
import msgspec

from ductor.definitions.errors import DuctorError
from ductor.journal.postgres.outage import Outage
from ductor.journal.postgres.store import PostgresStore
from ductor.journal.records import FeedPosition
from ductor.projections import checkpoints, generations
from ductor.projections.batch import RowBatch
from ductor.projections.builtin import builtin_projections
from ductor.projections.checkpoints import Checkpoint, failure_text
from ductor.projections.database import DATABASE_AWAY, PASSING_FAILURES, ModelDatabase
from ductor.projections.errors import TransactionEndedError
from ductor.projections.model import Projection, check_projections
from ductor.projections.pages import FeedPages, Page

FIRST_BATCH_ROWS = 1_000
"""Rows of a projection's first batch; while batches are quick they double."""
STOP_TIMEOUT_S = 10.0
"""For so long a stopping projector may finish its batch."""

BUILT_IN = frozenset(map(type, builtin_projections()))

_log = logging.getLogger(__name__)

Key = tuple[str, int]
T = TypeVar("T")


class ProjectorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How read models are filled.

    Attributes:
        batch_rows, batch_bytes: journal rows, and bytes of their events as stored, of one batch at most. A batch keeps
            the host's event loop busy for some microseconds a row.
        batch_ms: a batch that takes longer is followed by one of half as many rows.
        busy_poll_ms, idle_poll_ms: how often to look for new rows: from the first, as long as there are some, to the
            second, when there have been none for a while.
        claim_ms: between two claims; what is asked for (retry, rebuild) begins within this time.
        lease_ms: for so long a claim holds without being renewed; then another host takes over.
        backoff_first_ms, backoff_max_ms: pauses while the database is away.
    """

    batch_rows: int = 5_000
    batch_bytes: int = 8 * 1024 * 1024
    batch_ms: int = 2_000
    busy_poll_ms: int = 250
    idle_poll_ms: int = 3_000
    claim_ms: int = 10_000
    lease_ms: int = 30_000
    backoff_first_ms: int = 200
    backoff_max_ms: int = 10_000


class Member:
    """A generation that this projector fills. `rows_limit` is how many rows its next batch has at most."""

    def __init__(self, projection: Projection, checkpoint: Checkpoint, rows_limit: int) -> None:
        self.projection = projection
        self.is_built_in = type(projection) in BUILT_IN
        self.checkpoint = checkpoint
        self.rows_limit = rows_limit

    def moved_to(self, position: FeedPosition, **changes: bool) -> None:
        """The database has taken this."""
        self.checkpoint = msgspec.structs.replace(self.checkpoint, position=position, **changes)


class Projector:
    """See the module's docstring. Used as `async with`, it works until it is left.

    Args:
        store: whose feed is read; it is open.
        projections: what to fill.
        leader: names this host, uniquely.
        database: connections for the models; made for the store's database unless given, and then closed by the giver.
    """

    def __init__(
        self,
        store: PostgresStore,
        projections: Iterable[Projection],
        *,
        leader: str,
        options: ProjectorOptions | None = None,
        database: ModelDatabase | None = None,
    ) -> None:
        self._store = store
        self._projections = {one.name: one for one in check_projections(projections)}
        self._leader = leader
        self._options = options or ProjectorOptions()
        self._given_database = database
        self._database = database or ModelDatabase(store.settings)
        self._outage = Outage("the database of projections")
        self._members: dict[Key, Member] = {}
        self._claimed_at_s: float | None = None
        self._pages = FeedPages(store, self._database, self._options.batch_bytes)
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def __aenter__(self) -> Self:
        if self._projections:
            self._stopping.clear()
            self._task = asyncio.create_task(self._run(), name="ductor projector")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Finish the batch that is under way, within bounds, and let another host take over at once."""
        task, self._task = self._task, None
        if task is not None:
            self._stopping.set()
            _, late = await asyncio.wait((task,), timeout=STOP_TIMEOUT_S)
            for one in late:
                one.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._pages.close()
        if self._claimed_at_s is not None:
            self._claimed_at_s = None
            try:
                async with self._database.transaction() as connection:
                    await checkpoints.release(connection, self._leader)
            except DATABASE_AWAY as problem:
                _log.info("projections stay claimed until the lease runs out: %s", failure_text(problem))
        if self._given_database is None:
            await self._database.close()

    async def catch_up(self) -> None:
        """Work until everything that may be read now is in the models, or stands still. For tests and tools."""
        while await self.turn():
            pass

    async def turn(self) -> bool:
        """Claim if it is time, and carry each group on by one batch; whether there was anything to do.

        Raises what the database raises when it is lost; then the next turn claims anew.
        """
        try:
            await self._claim_if_due()
            has_worked = await self._care_for_generations()
            groups = self._groups()
            for index, (position, members) in enumerate(groups):
                until = groups[index + 1][0] if index + 1 < len(groups) else None
                has_worked |= await self._carry_on(position, members, until)
            return has_worked
        except BaseException:
            self._claimed_at_s = None
            raise

    async def _run(self) -> None:
        options = self._options
        pause_ms, backoff_ms = options.busy_poll_ms, options.backoff_first_ms
        while not self._stopping.is_set():
            try:
                has_worked = await self.turn()
            except DATABASE_AWAY as error:
                self._outage.note_failure(error)
                await self._pause(backoff_ms)
                backoff_ms = min(2 * backoff_ms, options.backoff_max_ms)
                continue
            except Exception:  # noqa: BLE001 - a defect must not end what other hosts would not take over either
                _log.exception("projections: a turn failed, and is tried again")
                await self._pause(options.backoff_max_ms)
                continue
            self._outage.note_answer()
            backoff_ms = options.backoff_first_ms
            if has_worked:
                pause_ms = options.busy_poll_ms
                if not self._pages.has_more:
                    await self._pause(pause_ms)
            else:
                await self._pause(pause_ms)
                pause_ms = min(2 * pause_ms, options.idle_poll_ms)

    async def _pause(self, ms: int) -> None:
        try:
            async with asyncio.timeout(ms / 1_000):
                await self._stopping.wait()
        except TimeoutError:
            return

    # --- claims and generations ---------------------------------------------------------------------------------------

    async def _claim_if_due(self) -> None:
        now_s = time.monotonic()
        if self._claimed_at_s is not None and now_s - self._claimed_at_s < self._options.claim_ms / 1_000:
            return
        wanted = [(one.name, one.revision) for one in self._projections.values()]
        async with self._database.transaction() as connection:
            if self._claimed_at_s is None:
                await checkpoints.register(connection, wanted)
            found = await checkpoints.claim(connection, wanted, self._leader, self._options.lease_ms)
        self._claimed_at_s = now_s
        before, self._members = self._members, {}
        for one in found:
            known = before.get(one.key)
            rows_limit = known.rows_limit if known is not None else min(FIRST_BATCH_ROWS, self._options.batch_rows)
            self._members[one.key] = Member(self._projections[one.name], one, rows_limit)

    async def _care_for_generations(self) -> bool:
        has_worked = False
        for member in list(self._members.values()):
            checkpoint = member.checkpoint
            if checkpoint.stage == "retired":
                await self._drop(member)
            elif not checkpoint.is_made and checkpoint.failed_at_us is None:
                has_worked |= await self._change(member, generations.make, is_made=True)
        return has_worked

    async def _change(self, member: Member, change: generations.Change, **done: bool) -> bool:
        """One step in the life of a generation; what it fails with is noted. Whether it was done."""
        async with self._database.transaction() as connection:
            was_done = await _try(connection, lambda: change(connection, member.checkpoint, member.projection))
            if not connection.is_in_transaction():
                was_done = TransactionEndedError(member.projection.name)
        if isinstance(was_done, Exception):
            await self._stand_still(member, None, was_done)
            return False
        if was_done:
            member.moved_to(member.checkpoint.position, **done)
        else:
            self._lose(member)
        return was_done

    async def _complete(self, member: Member) -> bool:
        """A generation that is built has reached the end of the feed. Whether there is more to do."""
        if not member.checkpoint.is_indexed:
            return await self._change(member, generations.index, is_indexed=True)
        try:
            was_swapped = await self._change(member, generations.swap)
        except asyncpg.LockNotAvailableError:
            _log.info("projection %s: a report is being read; the new model takes over later", member.projection.name)
            return False
        if was_swapped:
            _log.info("projection %s: generation %d is read now", *member.checkpoint.key)
            member.checkpoint = msgspec.structs.replace(member.checkpoint, stage="serving")
            self._claimed_at_s = None  # what it has replaced is to be dropped
        return was_swapped

    async def _drop(self, member: Member) -> None:
        self._lose(member)
        try:
            async with self._database.transaction() as connection:
                await generations.drop(connection, member.checkpoint)
        except asyncpg.LockNotAvailableError:
            _log.info("projection %s: an old model is still being read; it is dropped later", member.projection.name)

    # --- batches ------------------------------------------------------------------------------------------------------

    def _groups(self) -> list[tuple[FeedPosition, list[Member]]]:
        groups: dict[FeedPosition, list[Member]] = {}
        for member in self._members.values():
            one = member.checkpoint
            if one.is_made and one.failed_at_us is None and one.stage != "retired":
                groups.setdefault(one.position, []).append(member)
        return sorted(groups.items())

    async def _carry_on(self, position: FeedPosition, members: list[Member], until: FeedPosition | None) -> bool:
        limit = min(member.rows_limit for member in members)
        page = await self._pages.page(position, limit)
        if until is not None:
            page = page.up_to(until)
        elif not page.is_last:
            self._pages.read_ahead(page.end, limit)
        count = len(page.columns)
        # where rows were removed from the journal there may be none left up to the next group
        to = page.end if count else until
        if to is not None:
            began_s = time.monotonic()
            done = await self._apply(members, page, to)
            self._adapt(done, count, (time.monotonic() - began_s) * 1_000)
        has_worked = to is not None
        if page.is_last and until is None:
            for member in members:
                if member.checkpoint.stage == "building" and member.checkpoint.position == page.end:
                    has_worked |= await self._complete(member)
        return has_worked

    def _adapt(self, members: list[Member], count: int, took_ms: float) -> None:
        for member in members:
            if took_ms > self._options.batch_ms:
                member.rows_limit = max(1, min(member.rows_limit, count) // 2)
            elif count >= member.rows_limit and took_ms < self._options.batch_ms / 2:
                member.rows_limit = min(2 * member.rows_limit, self._options.batch_rows)

    async def _apply(self, members: list[Member], page: Page, to: FeedPosition) -> list[Member]:
        """One batch for one group, up to a place; those that have taken it. Those that fail on it fall behind."""
        built_in = [member for member in members if member.is_built_in]
        done = await self._apply_together(built_in, page, to) if built_in else []
        for member in members:
            if not member.is_built_in:
                try:
                    done += await self._apply_together([member], page, to)
                except TransactionEndedError as error:
                    await self._stand_still(member, _first_row(page), error)
        return done

    async def _apply_together(self, members: list[Member], page: Page, to: FeedPosition) -> list[Member]:
        """The same in one transaction. Raises TransactionEndedError; then nothing is known of what was written."""
        failed: list[tuple[Member, Exception]] = []
        columns, batch = page.columns, page.batch
        async with self._database.transaction() as connection:
            # a batch that a crash of the server takes back is taken back together with its checkpoint, and comes again
            await connection.execute("SET LOCAL synchronous_commit TO off")
            ours = await self._lock(connection, members)
            done: list[Member] = []
            for member in ours:
                apply = partial(_apply_to, connection, member, batch)
                error = await _try(connection, apply, generations.schema_entry(member.checkpoint))
                if not connection.is_in_transaction():
                    raise TransactionEndedError(member.projection.name)
                if error is None:
                    done.append(member)
                else:
                    failed.append((member, error))
            if done:
                await checkpoints.advance(
                    connection,
                    [member.checkpoint.key for member in done],
                    to,
                    rows=len(columns),
                    skipped_events=batch.skipped_events,
                    at_us=max(columns.at_us, default=0),
                )
        for member in done:
            member.moved_to(to)
        for member, error in failed:
            if len(columns) == 1:
                await self._stand_still(member, _first_row(page), error)
            else:
                member.rows_limit = len(columns) // 2
        return done

    async def _lock(self, connection: asyncpg.Connection, members: list[Member]) -> list[Member]:
        locked = await checkpoints.lock_checkpoints(
            connection, sorted(member.checkpoint.key for member in members), self._leader
        )
        ours = []
        for member in members:
            found = locked.get(member.checkpoint.key)
            if found is not None and found.position == member.checkpoint.position:
                ours.append(member)
            else:
                self._lose(member)
        return ours

    def _lose(self, member: Member) -> None:
        """It is somebody else's, or not what it was: whether it is ours again shows with the next claim."""
        self._members.pop(member.checkpoint.key, None)

    async def _stand_still(self, member: Member, at: tuple[str, int] | None, error: Exception) -> None:
        checkpoint = member.checkpoint
        run_id, version = at if at is not None else (None, None)
        async with self._database.transaction() as connection:
            await checkpoints.record_failure(connection, checkpoint, run_id, version, failure_text(error))
        self._lose(member)
        where = f"run {run_id}, version {version}" if run_id is not None else "its own tables"
        _log.error(
            "projection %s stands still at %s: %s; mend it, then `ductor projection retry %s`",
            checkpoint.name,
            where,
            failure_text(error),
            checkpoint.name,
            exc_info=None if isinstance(error, asyncpg.PostgresError | DuctorError) else error,
        )


def _first_row(page: Page) -> tuple[str, int] | None:
    """Run and version; None of a page without rows."""
    columns = page.columns
    return (columns.run_ids[0], columns.versions[0]) if len(columns) else None


async def _try(connection: asyncpg.Connection, work: Callable[[], Awaitable[T]], first: str = "") -> T | Exception:
    """Do all of `work` or nothing; the error that it has made itself. Raises what says nothing of the work.

    `first` is SQL for before it, sent along with the savepoint: round trips are what a batch costs besides its rows.
    For the same reason the savepoint is left to the end of the transaction.
    """
    await connection.execute(f"SAVEPOINT attempt; {first}")
    try:
        return await work()
    except Exception as error:
        if connection.is_closed() or isinstance(error, PASSING_FAILURES):
            raise
        if connection.is_in_transaction():
            await connection.execute("ROLLBACK TO SAVEPOINT attempt")
        return error


async def _apply_to(connection: asyncpg.Connection, member: Member, batch: RowBatch) -> None:
    if len(batch):
        await member.projection.apply_batch(batch, connection)
