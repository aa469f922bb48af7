"""What the engine needs of a database for leases: places at a key, which runs compete for.

Of one (tenant, key) each row is a *waiter* or a *holder*. Holders have a *fence*, a number that grows with every grant
of the key. The line is in order of asking: the first waiter becomes a holder when there are fewer holders than the
`limit` that it asked with, and none overtakes it, whatever its own limit. Where steps of one key name different limits,
each is obeyed by those that name it.

How it is carried out, so that no place is lost or given twice whoever dies when:
1. The tick that parks a node writes its waiter with the row (`Commit.leases`); the tick in which the node settles,
   however it does, removes waiter or holder (`Commit.leases_gone`). Either notes, in the same transaction, that the key
   has to be looked at.
2. `grant_leases` looks at a key: it takes the notes away, makes holders of the waiters whose turn has come, and stores
   the message that tells each run, all in one transaction. Two looks at one key come one after the other.
Whoever made the commit looks at once. Where it died before, the note is found by a sweep (`lease_work`). A look that
finds nothing to grant changes nothing.

A waiter that leaves while it is being granted is either removed before, and gets nothing, or after: then it was a
holder, its removal notes the key again, and its message finds nobody.

A run that continues as another one hands the lease of the whole run (`@run`) on with the commit that ends it
(`Commit.forwards_to`): the row and its fence are the successor's from then on.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ductor.journal.events import Message

MAX_GRANTED_AT_ONCE = 200
"""Waiters of one key that become holders in one transaction; the rest follow in the next one."""

MAX_HOLDERS_TOLD = 10
"""Holders of a key that are named to who asks how long its line is."""

MESSAGE_PREFIX = "lease:"
"""Begins the id of the message that tells a run of its lease. No other message may have such an id."""


class LeaseKey(msgspec.Struct, frozen=True, order=True):
    """What runs of a tenant compete for."""

    tenant: str
    key: str


class LeaseGrant(msgspec.Struct, frozen=True):
    """A waiter has become a holder: the message that was stored for its run."""

    run_id: str
    message: Message


class LeaseChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at a key has changed.

    Attributes:
        grants: in order of asking.
        is_complete: False where more waiters may be granted at once.
    """

    grants: tuple[LeaseGrant, ...] = ()
    is_complete: bool = True


class LeaseEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A waiter or a holder.

    Attributes:
        node: `@run` for a whole run.
        generation: how often the run had been redriven when it asked.
        limit: with so many holders it waits.
        position: order of asking; grows, with gaps.
        since_us: of a holder since when it holds, of a waiter since when it waits, by the database's clock.
        fence: 0 as long as it waits.
    """

    tenant: str
    key: str
    run_id: str
    node: str
    generation: int
    limit: int
    position: int
    since_us: int
    fence: int = 0


class LeaseLine(msgspec.Struct, frozen=True, kw_only=True):
    """What a waiter has before it.

    Attributes:
        ahead: waiters that come first.
        held: holders in all; holders: the first of them, `MAX_HOLDERS_TOLD` at most.
    """

    ahead: int
    held: int
    holders: tuple[LeaseEntry, ...]


LeasePlace = tuple[str, str, int]
"""Where a page of leases ends: tenant, key and position of its last entry."""


def message_id(node: str, fence: int) -> str:
    """The id of the message that tells a run of its lease; each grant has its own."""
    return f"{MESSAGE_PREFIX}{node}:{fence}"


class LeaseStore(Protocol):
    """The part of `ductor.journal.store.Store` that leases use."""

    async def grant_leases(self, key: LeaseKey) -> LeaseChange:
        """Look at a key: grant what is free to those who wait first, `MAX_GRANTED_AT_ONCE` at most."""
        ...

    async def lease_work(self, after: LeaseKey | None, limit: int) -> Sequence[LeaseKey]:
        """Keys that have to be looked at, a page in their order."""
        ...

    async def leases(
        self,
        *,
        tenant: str | None = None,
        key: str | None = None,
        run_id: str | None = None,
        after: LeasePlace | None = None,
        limit: int = 100,
    ) -> Sequence[LeaseEntry]:
        """Holders and waiters, a page in order of tenant, key and position."""
        ...

    async def lease_line(self, run_id: str, node: str) -> LeaseLine | None:
        """What the waiter of a node has before it. None where it does not wait."""
        ...
