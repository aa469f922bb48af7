"""What is sent to runs, and to the bus: signals, votes, case work, replies, events. Part of every client.

A message is checked as far as its sender can be told at once, and then stored; the run takes it up with its next tick.
What the run can't take any more (it ended in the same instant) is on the sender's receipt as `undelivered`.
"""

import uuid
from collections.abc import Sequence
from typing import Literal

import msgspec

from ductor.actors.chains import Chains
from ductor.actors.errors import ManifestMissingError, MessageRefusedError, RunNotFoundError
from ductor.actors.start import DEFAULT_TENANT, checked_key, checked_run_id
from ductor.actors.steps.approval import GROUP_PREFIX
from ductor.actors.steps.interaction import reply_problems
from ductor.definitions.manifest import decode_manifest
from ductor.definitions.program_bodies import carried_out
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.codec import admitted_value, checked_value, encode_value
from ductor.journal.commit import BusEvent, Payload
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import Message
from ductor.journal.records import EventReceipt, InboxEntry, MessageReceipt
from ductor.journal.replay import loaded_state
from ductor.journal.store import MAX_EVENT_PAYLOAD_BYTES


class Asked(msgspec.Struct, frozen=True):
    """What a parked step asks, and the messages that it has taken. `iteration` is that of its run."""

    data: JsonObject
    messages: Sequence[Message]
    iteration: int


class Messaging(Chains):
    """See the module's docstring. All methods raise StoreUnavailableError when the database can't be reached."""

    async def signal(
        self,
        run_id: str,
        name: str,
        payload: JsonValue = None,
        *,
        request_id: str | None = None,
        by: str = "",
        tenant: str | None = None,
    ) -> MessageReceipt:
        """Send a signal to a run. A repeated `request_id` gives the first one's receipt, and sends nothing.

        Raises:
            RunNotFoundError: there is no such run.
            MessageRefusedError: the run has ended, or too many messages wait in it.
        """
        message_id = checked_key(request_id, "request id") if request_id is not None else str(uuid.uuid4())
        message = Message(id=message_id, kind="signal", name=checked_key(name, "signal name"), by=by)
        return await self._send(run_id, message, payload, tenant)

    async def vote(
        self,
        run_id: str,
        step: str,
        decision: Literal["approved", "rejected"],
        *,
        by: str,
        groups: Sequence[str] = (),
        comment: str | None = None,
        request_id: str | None = None,
        tenant: str | None = None,
    ) -> MessageReceipt:
        """Approve or reject what an approval step asks; one vote a person.

        Args:
            by: who votes; must be among the step's approvers, or in one of their groups (`group:<name>`).
            groups: the groups that the voter belongs to, as the caller knows.

        Raises:
            RunNotFoundError: there is no such run.
            MessageRefusedError: the step does not wait for a vote, or not for this person's, or has it already.
        """
        asked = await self._asked(run_id, step, "approval", tenant)
        approvers = asked.data.get("approvers")
        allowed = {by, *(f"{GROUP_PREFIX}{group}" for group in groups)}
        if isinstance(approvers, list) and not allowed.intersection(str(name) for name in approvers):
            names = ", ".join(str(name) for name in approvers)
            raise MessageRefusedError(run_id, f"step {step}: {by} may not vote; approvers are {names}")
        if any(message.by == by for message in asked.messages):
            raise MessageRefusedError(run_id, f"step {step}: {by} has voted already")
        # ids are unique in a whole chain, of which each run asks anew
        vote_id = f"vote:{step}:{by}" + (f":{asked.iteration}" if asked.iteration else "")
        message = Message(id=request_id or vote_id, kind="vote", node=step, by=checked_key(by, "by"))
        return await self._send(run_id, message, {"decision": decision, "comment": comment}, tenant)

    async def work_case(
        self,
        run_id: str,
        step: str,
        *,
        by: str,
        status: str | None = None,
        assignee: str | None = None,
        comment: str | None = None,
        request_id: str | None = None,
        tenant: str | None = None,
    ) -> MessageReceipt:
        """Comment on a case, assign it, or set its status. Raises RunNotFoundError, MessageRefusedError."""
        await self._asked(run_id, step, "human_loop", tenant)
        given = {"status": status, "assignee": assignee, "comment": comment}
        changes: JsonObject = {field: text for field, text in given.items() if text is not None}
        if not changes:
            raise MessageRefusedError(run_id, f"step {step}: give a status, an assignee or a comment")
        message = Message(id=request_id or str(uuid.uuid4()), kind="case", node=step, by=checked_key(by, "by"))
        return await self._send(run_id, message, changes, tenant)

    async def reply(
        self,
        run_id: str,
        step: str,
        payload: JsonValue,
        *,
        by: str = "",
        request_id: str | None = None,
        tenant: str | None = None,
    ) -> MessageReceipt:
        """Answer an interaction. Raises RunNotFoundError; MessageRefusedError with every problem of a misfit."""
        asked = await self._asked(run_id, step, "interaction", tenant)
        schema = asked.data.get("schema")
        problems = reply_problems(schema if isinstance(schema, dict) else {}, checked_value(payload, "reply"))
        if problems:
            raise MessageRefusedError(run_id, f"step {step}: the reply does not fit", problems)
        message = Message(id=request_id or str(uuid.uuid4()), kind="reply", node=step, by=by)
        return await self._send(run_id, message, payload, tenant)

    async def receipt(self, run_id: str, message_id: str) -> MessageReceipt | None:
        """What became of a message; None when there is none of this id."""
        return await self.store.message_receipt(checked_run_id(run_id), message_id)

    async def inbox(
        self,
        *,
        tenant: str | None = DEFAULT_TENANT,
        person: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 100,
    ) -> Sequence[InboxEntry]:
        """What waits for people: for one, what names them or nobody in particular. In order of (run id, step)."""
        return await self.store.inbox(tenant=tenant, person=person, after=after, limit=limit)

    async def publish_event(
        self, name: str, payload: JsonValue = None, *, event_id: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> EventReceipt:
        """Publish an event on the tenant's bus; a repeated id is a duplicate. Raises ValueRefusedError."""
        what = f"payload of event {name}"
        checked = checked_value(payload, what)
        size_bytes = len(encode_value(checked))
        if size_bytes > MAX_EVENT_PAYLOAD_BYTES:
            raise ValueRefusedError(what, "", f"{size_bytes} bytes, the limit is {MAX_EVENT_PAYLOAD_BYTES}")
        event = BusEvent(
            tenant=checked_key(tenant, "tenant"),
            event_id=checked_key(event_id, "event id") if event_id is not None else str(uuid.uuid4()),
            name=checked_key(name, "event name"),
            payload=checked,
        )
        return await self._publish_event(event)

    # --- what a host does otherwise -----------------------------------------------------------------------------------

    async def _publish_event(self, event: BusEvent) -> EventReceipt:
        """Store it; a host finds whom it concerns."""
        return await self.store.publish_event(event)

    async def _store_message(
        self, run_id: str, message: Message, payloads: Sequence[Payload], tenant: str | None
    ) -> MessageReceipt | None:
        return await self.store.send_message(run_id, message, payloads, tenant=tenant)

    async def _send(self, run_id: str, message: Message, payload: JsonValue, tenant: str | None) -> MessageReceipt:
        what = f"payload of {message.kind} {message.name or message.node}"
        stored = admitted_value(payload, what)
        message = msgspec.structs.replace(message, payload=stored.inline, payload_ref=stored.ref)
        payloads = () if stored.payload is None else (stored.payload,)
        receipt = await self._store_message(checked_run_id(run_id), message, payloads, tenant)
        if receipt is None:
            raise RunNotFoundError(run_id)
        if receipt.verdict == "refused":
            raise MessageRefusedError(run_id, receipt.reason)
        if receipt.verdict == "accepted":
            sent = msgspec.structs.replace(message, at_us=receipt.at_us, position=receipt.position)
            if receipt.run_id == run_id:
                self._message_stored(run_id, sent, stored.payload)
            else:
                self._requested(receipt.run_id)  # it reads all that waits for it: older messages may have come along
        return receipt

    async def _asked(self, run_id: str, step: str, type_name: str, tenant: str | None) -> Asked:
        """What a parked step asks. Raises RunNotFoundError, MessageRefusedError."""
        loaded = await self._loaded(run_id, tenant)
        state = loaded_state(loaded)
        record = await self.store.manifest(state.manifest_hash)
        if record is None:
            raise ManifestMissingError(state.manifest_hash)
        steps = carried_out(decode_manifest(record.manifest), state.body).steps
        types = {known.ref: known.type_name for known in steps}
        if types.get(step) != type_name:
            names = ", ".join(ref for ref, kind in types.items() if kind == type_name) or "none"
            raise MessageRefusedError(run_id, f"{step!r} is no {type_name} step of it; there are: {names}")
        node = state.nodes.get(step)
        if node is None or node.status != "waiting":
            status = node.status if node is not None else "pending"
            raise MessageRefusedError(run_id, f"step {step} does not wait for this: it is {status}")
        data = state.value(node.data, node.data_ref)
        return Asked(data if isinstance(data, dict) else {}, node.messages, state.iteration)

    def _requested(self, run_id: str) -> None:
        """Something was asked of a run: a host has it look at what waits for it."""

    def _message_stored(self, run_id: str, message: Message, payload: Payload | None) -> None:
        """A message was stored: a host that has the run takes it up at once."""
