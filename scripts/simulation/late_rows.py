"""Rows that others see later than they were decided on, as PostgreSQL has them.

A statement decides on what it sees when it begins (its snapshot), and takes its places in the order of messages then.
Others see what it has written when its transaction commits. What commits in between was decided without it: a run is
continued or ends, and its last statement has not seen the message that was already on its way to it. So a message, an
event or a request can turn up in a run that another one continues, after everything else has moved on; and the same one
can have been accepted by a later run of the chain meanwhile, under the same id.

`begin` carries a statement out and hides what it has written, `finish` shows it. Who sends moves older messages that
were left behind so on first, as the statement `send_message` does.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ductor.journal.admission import event_message_id
from ductor.journal.commit import BusEvent, MessageDisposition, Payload
from ductor.journal.events import Message
from ductor.journal.memory import MemoryStore
from ductor.journal.memory_rows import RunRows
from ductor.journal.records import Control, ControlReceipt, MessageReceipt

Finish = Callable[[], Any]


class LateRowsStore(MemoryStore):
    """See the module's docstring."""

    def begin(self, name: str, arguments: tuple[Any, ...], result: Any) -> Finish:
        """Hide what a statement has just written. What is returned shows it, and gives the statement's answer.

        Args:
            name: `send_message`, `deliver_event` or `request_control`.
            arguments, result: what it was called with, and what it came to.
        """
        if name == "send_message":
            return self._hidden_message(result, arguments[2] if len(arguments) > 2 else ())
        if name == "deliver_event":
            return self._hidden_events(arguments[0], result)
        return self._hidden_control(result)

    async def send_message(
        self, run_id: str, message: Message, payloads: Sequence[Payload] = (), *, tenant: str | None = None
    ) -> MessageReceipt | None:
        """As the memory store; what was left behind goes on first."""
        run = self._runs.get(run_id)
        if run is not None and run.is_continued:
            self._pass_on(self._latest_run(run))
        return await super().send_message(run_id, message, payloads, tenant=tenant)

    def _pass_on(self, latest: RunRows) -> None:
        for run_id in self._chains.get(latest.head.chain_run_id or "", ())[:-1]:
            if self._messages_of(run_id).read_unconsumed():
                self._forward_messages(self._runs[run_id], latest, None)
                self._forward_controls(self._runs[run_id], latest)

    def _hidden_message(self, receipt: MessageReceipt | None, payloads: Sequence[Payload]) -> Finish:
        if receipt is None or receipt.verdict != "accepted":
            return lambda: receipt
        run_id, message = receipt.run_id, self._hide_message(receipt.run_id, receipt.message_id)

        def finish() -> MessageReceipt:
            self._runs[run_id].add_payloads(payloads)
            present = self._show_message(run_id, message)
            return receipt if present is None else present

        return finish

    def _hidden_events(self, event: BusEvent, delivered: Sequence[str]) -> Finish:
        message_id = event_message_id(event.event_id)
        hidden = [(run_id, self._hide_message(run_id, message_id)) for run_id in delivered]
        payloads = {run_id: dict(self._runs[run_id].payloads) for run_id in delivered}

        def finish() -> list[str]:
            for run_id, message in hidden:
                ref = message.payload_ref
                if ref is not None:
                    self._runs[run_id].add_payloads((Payload(ref.hash, payloads[run_id][ref.hash]),))
            return [run_id for run_id, message in hidden if self._show_message(run_id, message) is None]

        return finish

    def _hidden_control(self, receipt: ControlReceipt | None) -> Finish:
        if receipt is None or receipt.verdict != "accepted":
            return lambda: receipt
        run = self._runs[receipt.run_id]
        control = run.read_control(receipt.request_id)
        assert control is not None
        del run.controls[control.request_id], run.waiting_controls[control.request_id]
        self._index_inputs(receipt.run_id, run)
        return lambda: self._show_control(run, control, receipt)

    def _show_control(self, run: RunRows, control: Control, receipt: ControlReceipt) -> ControlReceipt:
        if control.request_id in run.controls:
            return msgspec.structs.replace(receipt, verdict="duplicate")
        run.add_control(control)
        self._index_inputs(receipt.run_id, run)
        return receipt

    def _hide_message(self, run_id: str, message_id: str) -> Message:
        messages = self._messages_of(run_id)
        message = next(one for one in messages.read_waiting() if one.id == message_id)
        messages.dispose(MessageDisposition(message_id, "consumed"), None)
        del messages.receipts[message_id]
        if not messages.waiting:
            self._with_messages.pop(run_id, None)
        return message

    def _show_message(self, run_id: str, message: Message) -> MessageReceipt | None:
        """The receipt of the same message where somebody else has stored it meanwhile."""
        messages = self._messages_of(run_id)
        if message.id in messages.receipts:
            return messages.receipts[message.id]
        self._with_messages[run_id] = None
        messages.add(message, is_delivered=True)
        return None
