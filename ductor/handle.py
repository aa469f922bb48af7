"""A run, for whoever started it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import msgspec

from ductor.actors.children_of_steps import ChildrenPage, ChildStepStatus
from ductor.actors.client import Client as EngineClient
from ductor.actors.explain import Explanation
from ductor.actors.lineage import MAX_TREE_RUNS, RunTree
from ductor.actors.start import checked_run_id
from ductor.actors.views import HistoryRow, RunView
from ductor.definitions.values import JsonObject, JsonValue
from ductor.errors import unsuccessful
from ductor.journal.events import ControlKind
from ductor.journal.records import Control, ControlReceipt, Head, MessageReceipt, RunFilter
from ductor.transaction import TransactionClient

if TYPE_CHECKING:
    from ductor.journal.postgres.callers import AnyConnection

HISTORY_PAGE = 1_000
CHAIN_PAGE = 1_000


class RunHandle:
    """One run. Nothing is kept here but its id: every answer comes from the journal.

    What is asked or sent is durable once the call returns, and repeated under the same `request_id` it changes nothing
    and gives the first one's receipt. All methods raise RunNotFoundError where there is no such run.

    Attributes:
        run_id: its id.
        is_new: False where a start met an earlier run with the same key.
    """

    def __init__(self, client: EngineClient, run_id: str, *, tenant: str | None = None, is_new: bool = False) -> None:
        self._client = client
        self._tenant = tenant
        self.run_id = run_id
        self.is_new = is_new

    def __repr__(self) -> str:
        return f"<RunHandle {self.run_id}>"

    async def result(self, timeout: float | timedelta | None = None) -> JsonValue:
        """Wait for the end and return the run's output.

        Args:
            timeout: seconds to wait at most; None waits for ever.

        Raises:
            RunFailedError, RunCancelledError, RunTerminatedError: it ended so, with the type, message and details.
            WaitTimeoutError: it has not ended in time, and goes on.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        timeout_ms = None if seconds is None else round(seconds * 1_000)
        outcome = await self._client.outcome(self.run_id, timeout_ms=timeout_ms)
        if outcome.status != "completed":
            raise unsuccessful(outcome.status, self.run_id, outcome.error)
        return outcome.output

    async def status(self, *, follows: bool = True) -> RunView:
        """The run as its journal tells, with every step.

        Args:
            follows: where other runs continue this one, the latest is meant; False: this very one.
        """
        return await self._client.view(self.run_id, tenant=self._tenant, follows=follows)

    async def explain(self, *, follows: bool = True) -> Explanation:
        """Why the run does not move, or why it ended as it did: a tree of reasons. `follows` as of `status`."""
        return await self._client.explain(self.run_id, tenant=self._tenant, follows=follows)

    async def chain(self) -> list[Head]:
        """The runs that continue each other to which this one belongs, in order; itself where there are no others."""
        heads: list[Head] = []
        while True:
            after = heads[-1].iteration if heads else -1
            page = await self._client.chain(self.run_id, after_iteration=after, limit=CHAIN_PAGE)
            heads.extend(page)
            if len(page) < CHAIN_PAGE:
                return heads

    async def children(self, *, before: str | None = None, limit: int = 50) -> Sequence[Head]:
        """Runs that this one has started, newest first.

        Args:
            before: a run id, continues a page.
        """
        which = RunFilter(
            tenant=self._tenant,
            parent_run_ids=(checked_run_id(self.run_id),),
            before_run_id=before,
            limit=limit,
            shows_continued=True,
        )
        return await self._client.runs(which)

    async def tree(self, *, limit: int = MAX_TREE_RUNS) -> RunTree:
        """This run and all that it has started, at any depth; of `limit` runs at most. Raises RunNotFoundError."""
        return await self._client.tree(self.run_id, tenant=self._tenant, limit=limit)

    async def children_of_step(
        self,
        step: str,
        *,
        after: int = -1,
        limit: int = 100,
        status: ChildStepStatus | None = None,
        follows: bool = True,
    ) -> ChildrenPage:
        """A page of the children of a scatter, in the order of its items, with the results that are there already.

        Args:
            after: index of the last child of the page before (`ChildrenPage.next_after`).
            limit: children of the page at most; never more than 1,000.
            status: only children of this status.
            follows: as of `status`.

        Raises:
            NotAScatterError: the run has no such scatter.
        """
        return await self._client.children_of_step(
            self.run_id, step, after=after, limit=limit, status=status, tenant=self._tenant, follows=follows
        )

    async def history(self, *, follows: bool = True, whole_chain: bool = False) -> list[HistoryRow]:
        """All rows of its journal, in order.

        Args:
            follows: as of `status`.
            whole_chain: the rows of all runs of its chain, as if they were one.
        """
        rows: list[HistoryRow] = []
        run_id = await self._client.latest(self.run_id) if follows else self.run_id
        while True:
            if whole_chain:
                place = (rows[-1].iteration, rows[-1].version) if rows else (0, 0)
                page = await self._client.chain_history(run_id, after=place, limit=HISTORY_PAGE)
            else:
                after = rows[-1].version if rows else 0
                page = await self._client.history(run_id, after_version=after, limit=HISTORY_PAGE)
            rows.extend(page)
            if len(page) < HISTORY_PAGE:
                return rows

    # --- what is sent to it -------------------------------------------------------------------------------------------

    async def signal(
        self,
        name: str,
        payload: JsonValue = None,
        *,
        request_id: str | None = None,
        by: str = "",
        connection: "AnyConnection | None" = None,
    ) -> MessageReceipt:
        """Send a signal. It is kept until a step waits for it.

        Args:
            connection: sends it inside the transaction of this connection to the same database.

        Raises:
            MessageRefusedError: the run has ended, or too many messages wait in it.
            ValueRefusedError: the payload is no exact JSON, or too large.
        """
        client = self._client if connection is None else TransactionClient(self._client, connection)
        return await client.signal(self.run_id, name, payload, request_id=request_id, by=by, tenant=self._tenant)

    async def approve(
        self,
        step: str,
        *,
        by: str,
        comment: str | None = None,
        groups: Sequence[str] = (),
        request_id: str | None = None,
    ) -> MessageReceipt:
        """Vote for what an approval step asks; one vote a person.

        Args:
            by: who votes; must be among the approvers, or in one of their groups (`group:<name>`).
            groups: the groups that the voter belongs to, as the caller knows.

        Raises:
            MessageRefusedError: the step does not wait for a vote, or not for this person's, or has it already.
        """
        return await self._vote("approved", step, by=by, comment=comment, groups=groups, request_id=request_id)

    async def reject(
        self,
        step: str,
        *,
        by: str,
        comment: str | None = None,
        groups: Sequence[str] = (),
        request_id: str | None = None,
    ) -> MessageReceipt:
        """Vote against what an approval step asks. Arguments and errors as of `approve`."""
        return await self._vote("rejected", step, by=by, comment=comment, groups=groups, request_id=request_id)

    async def case(
        self,
        step: str,
        *,
        by: str,
        status: str | None = None,
        assignee: str | None = None,
        comment: str | None = None,
        request_id: str | None = None,
    ) -> MessageReceipt:
        """Work on the case of a human_loop step: comment on it, assign it, set its status.

        Raises:
            MessageRefusedError: the step has no open case, or nothing is given.
        """
        return await self._client.work_case(
            self.run_id,
            step,
            by=by,
            status=status,
            assignee=assignee,
            comment=comment,
            request_id=request_id,
            tenant=self._tenant,
        )

    async def reply(
        self, step: str, payload: JsonValue, *, by: str = "", request_id: str | None = None
    ) -> MessageReceipt:
        """Answer an interaction step.

        Raises:
            MessageRefusedError: the step does not ask, or the reply does not fit its schema: `problems` names
                everything.
        """
        return await self._client.reply(self.run_id, step, payload, by=by, request_id=request_id, tenant=self._tenant)

    async def receipt(self, request_id: str) -> MessageReceipt | None:
        """What became of a message that was sent under this id; None when there is none."""
        return await self._client.receipt(self.run_id, request_id)

    # --- what is asked of it ------------------------------------------------------------------------------------------

    async def cancel(self, *, by: str = "", reason: str = "", request_id: str | None = None) -> ControlReceipt:
        """Ask the run to stop: handlers are told, deferred steps run, then it ends as cancelled.

        Raises:
            ControlRefusedError: the run has ended.
        """
        return await self._ask("cancel", by, request_id, {"reason": reason} if reason else {})

    async def terminate(self, *, by: str = "", reason: str = "", request_id: str | None = None) -> ControlReceipt:
        """End the run at once: nothing more of it runs, deferred steps neither. Raises as `cancel`."""
        return await self._ask("terminate", by, request_id, {"reason": reason} if reason else {})

    async def pause(self, *, by: str = "", reason: str = "", request_id: str | None = None) -> ControlReceipt:
        """Ask the run to stand still: nothing starts and timers stop counting; attempts in flight go on.

        A run that is paused already refuses it, on record: `control` tells. Raises as `cancel`.
        """
        return await self._ask("pause", by, request_id, {"reason": reason} if reason else {})

    async def resume(self, *, by: str = "", request_id: str | None = None) -> ControlReceipt:
        """Ask a paused run to go on. One that is not paused refuses it, on record. Raises as `cancel`."""
        return await self._ask("resume", by, request_id, {})

    async def compensate(self, *, by: str = "", reason: str = "", request_id: str | None = None) -> ControlReceipt:
        """Ask a run that has ended to undo what it has done and not undone. One that had completed ends as cancelled.

        Whether there is anything to undo is decided by its next tick, and is on record: `control` tells.
        """
        return await self._ask("compensate", by, request_id, {"reason": reason} if reason else {})

    async def redrive(
        self,
        from_steps: Sequence[str] = (),
        *,
        input: JsonValue | msgspec.UnsetType = msgspec.UNSET,
        by: str = "",
        request_id: str | None = None,
    ) -> ControlReceipt:
        """Ask a run that has ended to go on from where it failed, keeping what succeeded.

        Args:
            from_steps: steps to do anew, with all that comes after them; those that failed where none is named.
            input: for the one task step that is done anew, in place of what its definition says.

        Whether the run can is decided by its next tick, and is on record: `control` tells.
        """
        arguments: JsonObject = {}
        if from_steps:
            arguments["from"] = list(from_steps)
        if input is not msgspec.UNSET:
            arguments["input"] = input
        return await self._ask("redrive", by, request_id, arguments)

    async def continue_as_new(self, *, by: str = "", reason: str = "", request_id: str | None = None) -> ControlReceipt:
        """Ask the run to make way for a new one that begins from the entrypoints, with its context.

        What is under way may finish first, and what waits in its inbox goes along. Raises as `cancel`.
        """
        return await self._ask("continue_as_new", by, request_id, {"reason": reason} if reason else {})

    async def compact(self, *, by: str = "", reason: str = "", request_id: str | None = None) -> ControlReceipt:
        """Ask an open run to let its history begin now: one row stands for all rows before it, which are removed in
        the background once read models have seen them.

        The run goes on as before; what it did before can't be looked at any more. Raises as `cancel`.
        """
        return await self._ask("compact", by, request_id, {"reason": reason} if reason else {})

    async def control(self, request_id: str) -> Control | None:
        """What became of something that was asked under this id; None when there is none.

        Its `disposition` is empty until the run has taken it up, then `applied`, or `refused` with `outcome`.
        """
        return await self._client.store.control(self.run_id, request_id)

    async def _ask(self, kind: ControlKind, by: str, request_id: str | None, arguments: JsonObject) -> ControlReceipt:
        return await self._client.request(
            self.run_id, kind, request_id=request_id, arguments=arguments, by=by, tenant=self._tenant
        )

    async def _vote(
        self,
        decision: Literal["approved", "rejected"],
        step: str,
        *,
        by: str,
        comment: str | None,
        groups: Sequence[str],
        request_id: str | None,
    ) -> MessageReceipt:
        return await self._client.vote(
            self.run_id,
            step,
            decision,
            by=by,
            groups=groups,
            comment=comment,
            request_id=request_id,
            tenant=self._tenant,
        )
