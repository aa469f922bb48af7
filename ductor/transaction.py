"""Start, signal and publish inside the caller's own transaction: all of it happens with that transaction, or nothing.

What is looked up on the way (the definition that is started) is read outside of it, as everybody sees it. A host finds
what was committed when it next looks for what waits, which takes half a second at most.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ductor.actors.client import Client as EngineClient
from ductor.definitions.errors import DuctorError
from ductor.journal.commit import BusEvent, Commit, CommitAnswer, Payload
from ductor.journal.events import Message
from ductor.journal.records import EventReceipt, MessageReceipt

if TYPE_CHECKING:
    from ductor.journal.postgres.callers import AnyConnection, CallersConnection


class NotInPostgresError(DuctorError):
    """A connection was given to a client whose runs are not kept in PostgreSQL.

    Attributes:
        store: the kind of store that it has.
    """

    code = "not_in_postgres"

    def __init__(self, store: str) -> None:
        self.store = store
        super().__init__(
            f"`connection` needs runs that are kept in PostgreSQL, and these are in a {store}: leave it out, or open "
            "the client with a database"
        )


class TransactionClient(EngineClient):
    """A client that writes through the caller's connection, which must be one to the same database.

    Raises NotInPostgresError; its calls raise UnknownConnectionError, and what the driver raises.
    """

    def __init__(self, client: EngineClient, connection: "AnyConnection") -> None:
        from ductor.journal.postgres import PostgresStore  # noqa: PLC0415 - a driver that other stores don't need

        if not isinstance(client.store, PostgresStore):
            raise NotInPostgresError(type(client.store).__name__)
        super().__init__(client.store, clock=client.clock, ids=client.ids, functions=client.functions)
        self._connection = connection
        self._client = client

    def new_traceparent(self, run_id: str) -> str:
        """Of the client that it writes for."""
        return self._client.new_traceparent(run_id)

    async def _theirs(self) -> "CallersConnection":
        from ductor.journal.postgres.callers import callers_connection  # noqa: PLC0415

        return await callers_connection(self._connection)

    async def _append(self, commit: Commit) -> CommitAnswer:
        from ductor.journal.postgres import start_on  # noqa: PLC0415

        return await start_on(await self._theirs(), commit)

    async def _store_message(
        self, run_id: str, message: Message, payloads: Sequence[Payload], tenant: str | None
    ) -> MessageReceipt | None:
        from ductor.journal.postgres import send_message_on  # noqa: PLC0415

        return await send_message_on(await self._theirs(), run_id, message, payloads, tenant=tenant)

    async def _publish_event(self, event: BusEvent) -> EventReceipt:
        from ductor.journal.postgres import publish_event_on  # noqa: PLC0415

        return await publish_event_on(await self._theirs(), event)
