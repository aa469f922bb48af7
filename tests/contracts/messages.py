"""Messages for the contract suite, and what must hold wherever they are sent and read."""

from typing import Any

from ductor.definitions.values import JsonObject
from ductor.journal.commit import MessageDisposition
from ductor.journal.events import Message
from ductor.journal.records import MessageReceipt
from ductor.journal.store import Store
from tests.contracts.writers import START_US, RunWriter

EXACT: JsonObject = {"b": 1.0, "a": 2**70, "é": "😀", "list": [None, True, 1e22, []], "nested": {"z": {}}}
LONG_AGO_US = START_US - 1_000_000
NOBODY = "01890000-0000-7000-8000-000000000000"


def signal(message_id: str = "message-1", **fields: Any) -> Message:
    return Message(**{"id": message_id, "kind": "signal", "name": "paid", **fields})


async def sent_well(store: Store, run: RunWriter, message: Message, **arguments: Any) -> MessageReceipt:
    receipt = await store.send_message(run.run_id, message, **arguments)
    assert receipt is not None
    assert receipt.verdict == "accepted", receipt
    return receipt


async def waiting_ids(store: Store, run: RunWriter) -> list[str]:
    """Messages that wait, which both ways of reading them agree on."""
    loaded, inputs = await store.load(run.run_id), await store.inputs(run.run_id)
    assert loaded is not None
    assert inputs is not None
    assert inputs.messages == loaded.messages
    return [message.id for message in loaded.messages]


def disposed(message_id: str, disposition: Any) -> dict[str, Any]:
    return {"messages": (MessageDisposition(message_id, disposition),)}
