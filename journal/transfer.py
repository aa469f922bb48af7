"""What export and import need of a database: everything of one run in pages, and a way in for the rows of a closed run.

Pages are keyed by what they are in order of, so that a page that is asked for again is the same page as long as nothing
was added before it. A journal only grows at its end; who wants one view of an open run stops at a version.

Import is the one way to write rows that no tick of this database has decided. It therefore takes closed runs only:
`import_run` writes the head as it is given, all rows as they are, byte for byte, and nothing that would wake the run.
It is one transaction, and leaves a run that exists as it is.
"""

from collections.abc import AsyncIterable, Sequence
from typing import Literal, Protocol

import msgspec

from ductor.journal.commit import Payload
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import TERMINAL_RUN_STATUSES, Message
from ductor.journal.records import AttemptRow, Control, Head, PublishedDefinition, Transition


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a run, and what became of it. `version` is that of the journal row that took it up."""

    message: Message
    disposition: Literal["", "buffered", "consumed", "undelivered", "forwarded"] = ""
    version: int | None = None


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the rows of a run. Over all pages transitions are in order, and so are controls and messages."""

    payloads: tuple[Payload, ...] = ()
    transitions: tuple[Transition, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    controls: tuple[Control, ...] = ()
    messages: tuple[StoredMessage, ...] = ()


class TransferStore(Protocol):
    """Part of `Store`. All pages are empty for a run that does not exist."""

    async def payload_page(self, run_id: str, *, after_hash: str = "", limit: int) -> Sequence[Payload]:
        """Large values of a run, in order of hash."""
        ...

    async def attempt_page(self, run_id: str, *, after: tuple[str, int] = ("", 0), limit: int) -> Sequence[AttemptRow]:
        """Attempt rows of a run, in order of node and generation."""
        ...

    async def control_page(self, run_id: str, *, after_request_id: str = "", limit: int) -> Sequence[Control]:
        """Requests to a run in the order of their arrival, after the one of this id."""
        ...

    async def message_page(self, run_id: str, *, after_position: int = 0, limit: int) -> Sequence[StoredMessage]:
        """Messages to a run, in order of position."""
        ...

    async def import_run(
        self, head: Head, definitions: Sequence[PublishedDefinition], pages: AsyncIterable[RunPage]
    ) -> bool:
        """Write a closed run and all its rows in one transaction; False, and nothing written, where the run exists.

        The definitions are kept for the run, withdrawn from new starts, unless the tenant has them already. The head's
        start key is shown and reserves nothing. The rows are new to the feed.

        Raises:
            ValueRefusedError: the run is not closed, or a row holds what the database does not take. Nothing was
                written.
        """
        ...


def check_closed(head: Head) -> None:
    """Of a run that is to be imported. Raises ValueRefusedError."""
    if head.status not in TERMINAL_RUN_STATUSES:
        raise ValueRefusedError("status", "", f"run {head.run_id} is {head.status}; only closed runs are imported")
