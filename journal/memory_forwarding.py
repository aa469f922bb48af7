"""How the memory store moves what waits for a run to the one that continues it."""

import msgspec

from ductor.journal.commit import Commit, MessageDisposition, Payload
from ductor.journal.events import Message
from ductor.journal.memory_children import MemoryChildren
from ductor.journal.memory_rows import RunRows


class MemoryForwarding(MemoryChildren):
    """Messages and controls of continued runs. What another run of the chain has had meanwhile stays behind."""

    def _forward(self, run: RunRows, commit: Commit) -> None:
        """Move what waits: to the successor with the commit that continues the run, later to the latest of the chain.
        What the commit itself says of inputs has been noted before."""
        if commit.version:
            self._note_latest(run, commit.forwards_to)
            self._note_inputs(run)
        target = self._latest_run(run)
        self._forward_messages(run, target, commit.version or None)
        self._forward_controls(run, target)

    def _note_inputs(self, run: RunRows) -> None:
        for message_id in self._messages_of(run.head.run_id).receipts:
            if self._place_elsewhere(run, "message", message_id) is None:
                self._note_input(run, "message", message_id, run.head.run_id)
        for request_id in run.controls:
            if self._place_elsewhere(run, "control", request_id) is None:
                self._note_input(run, "control", request_id, run.head.run_id)

    def _forward_messages(self, run: RunRows, target: RunRows, version: int | None) -> None:
        run_id, target_id = run.head.run_id, target.head.run_id
        messages, received = self._messages_of(run_id), self._messages_of(target_id)
        for message in messages.read_unconsumed():
            is_own = message.kind in ("digest", "lease")  # nobody else can take what the run itself had begun
            if is_own or self._place_elsewhere(run, "message", message.id) is not None:
                messages.dispose(MessageDisposition(message.id, "undelivered"), version)
                continue
            messages.dispose(MessageDisposition(message.id, "forwarded"), version)
            self._note_input(run, "message", message.id, target_id)
            if message.id not in received.receipts:
                self._copy_payload(run, target, message)
                self._add_message(target_id, message, message.at_us, is_delivered=True)
        self._with_messages.pop(run_id, None)

    def _forward_controls(self, run: RunRows, target: RunRows) -> None:
        for control in run.read_waiting_controls():
            elsewhere = self._place_elsewhere(run, "control", control.request_id)
            run.forward_control(control, elsewhere or target.head.run_id)
            if elsewhere is not None:
                continue
            self._note_input(run, "control", control.request_id, target.head.run_id)
            if control.request_id not in target.controls:
                target.add_control(msgspec.structs.replace(control, run_id=target.head.run_id))
        self._index_inputs(run.head.run_id, run)
        self._index_inputs(target.head.run_id, target)

    def _copy_payload(self, run: RunRows, target: RunRows, message: Message) -> None:
        ref = message.payload_ref
        if ref is not None and ref.hash in run.payloads:
            target.add_payloads((Payload(ref.hash, run.payloads[ref.hash]),))
