"""Digests: what parked steps bring, and the windows that gather it.

A window changes under a lock of its name that ends with the transaction, so of two hosts the second sees the first, and
a row that is not there yet is locked as well. The waits it concerns, that of its leader among them, are locked in order
of run, as every commit does: a step can't leave while it is being told.
"""

from collections.abc import Sequence

import msgspec

from ductor.journal.digest_store import (
    MAX_JOINED_AT_ONCE,
    DigestChange,
    DigestWindow,
    DigestWork,
    UnjoinedDigest,
)
from ductor.journal.digest_windows import Advance, Member, OpenWindow, advance_window, tellings
from ductor.journal.ids import is_run_id
from ductor.journal.postgres.database import Database, Fetch, fetch_on
from ductor.journal.postgres.rows import json_text


class Digests:
    """Windows that runs share."""

    _database: Database

    async def unjoined_digests(self, run_ids: Sequence[str], limit: int) -> Sequence[UnjoinedDigest]:
        """What steps of these runs bring and nobody has joined yet, in order of parking."""
        known = [run_id for run_id in run_ids if is_run_id(run_id)]
        rows = await self._database.fetch("unjoined_digests", run_ids=known, limit=limit)
        return [UnjoinedDigest(run_id=row[0], generation=row[1], window=DigestWindow(*row[2:])) for row in rows]

    async def digest_work(self, now_us: int, limit: int) -> DigestWork:
        """What is left to be done, the oldest first."""
        rows = await self._database.fetch("digest_work", now_us=now_us, limit=limit)
        return DigestWork(
            unjoined=tuple(
                UnjoinedDigest(run_id=row[1], generation=row[2], window=DigestWindow(*row[3:]))
                for row in rows
                if row[0] == "unjoined"
            ),
            due=tuple(DigestWindow(*row[3:]) for row in rows if row[0] == "due"),
        )

    async def join_digest(self, window: DigestWindow, unjoined: Sequence[UnjoinedDigest], now_us: int) -> DigestChange:
        """Bring items to their window; those that have been joined, or whose step has left, are passed over."""
        wanted = {joining.run_id: joining for joining in unjoined[:MAX_JOINED_AT_ONCE] if joining.window == window}
        return await self._change(window, wanted, now_us)

    async def close_digest(self, window: DigestWindow, now_us: int) -> DigestChange:
        """Close a window whose time is over, and tell its leader."""
        return await self._change(window, {}, now_us)

    async def _change(self, window: DigestWindow, wanted: dict[str, UnjoinedDigest], now_us: int) -> DigestChange:
        async with self._database.transaction() as connection:
            return await _Change(fetch_on(connection), window).carry_out(wanted, now_us)


class _Change:
    """One window in one transaction."""

    def __init__(self, fetch: Fetch, window: DigestWindow) -> None:
        self._fetch = fetch
        self._node = window.node
        self._lock_name = msgspec.json.encode(window).decode()
        self._name = msgspec.structs.asdict(window)

    async def carry_out(self, wanted: dict[str, UnjoinedDigest], now_us: int) -> DigestChange:
        await self._fetch("lock_digest_window", window=self._lock_name)
        rows = await self._fetch("digest_window", **self._name)
        before = OpenWindow(*rows[0]) if rows else None
        members, has_leader = await self._members(wanted, before)
        if before is not None and not has_leader:
            before = await self._without_leader(before)
        advance = advance_window(before, members, now_us)
        if members:
            joined = [member.run_id for member in members]
            await self._fetch("mark_digests_joined", run_ids=joined, node=self._node)
        told = await self._tell(advance)
        await self._write(advance)
        after = advance.window
        closes_at_us = after.closes_at_us if after is not None and after.leader_run_id else None
        return DigestChange(closes_at_us=closes_at_us, told=told)

    async def _members(self, wanted: dict[str, UnjoinedDigest], window: OpenWindow | None) -> tuple[list[Member], bool]:
        """Those who join, in their order, and whether the leader is parked still."""
        leader = window.leader_run_id if window is not None else ""
        run_ids = sorted({*wanted, leader} - {""})
        rows = await self._fetch("lock_digest_waits", run_ids=run_ids, node=self._node) if run_ids else []
        found: dict[str, Member] = {}
        has_leader = False
        for row in rows:
            run_id, generation, key, item, duration_ms, max_items, is_joined = row
            if is_joined:
                has_leader = has_leader or (
                    window is not None and (run_id, generation) == (leader, window.leader_generation)
                )
            elif run_id in wanted and wanted[run_id].generation == generation and wanted[run_id].window.key == key:
                found[run_id] = Member(run_id, generation, item.encode(), duration_ms, max_items)
        return [found[run_id] for run_id in wanted if run_id in found], has_leader

    async def _without_leader(self, window: OpenWindow) -> OpenWindow | None:
        """What is left of a window whose leader has gone: None if that is nothing."""
        if not window.leader_run_id:
            return window
        (row,) = await self._fetch(
            "remove_digest_leader", **self._name, run_id=window.leader_run_id, generation=window.leader_generation
        )
        if row[0] == window.item_count:
            return None
        return msgspec.structs.replace(
            window,
            leader_run_id="",
            leader_generation=0,
            item_count=window.item_count - row[0],
            item_bytes=window.item_bytes - row[1],
        )

    async def _tell(self, advance: Advance) -> tuple[str, ...]:
        """Store the messages; for which runs there is a new one."""
        stored: list[bytes] = []
        if advance.closed and advance.closed[0].with_stored:
            stored = [row[0].encode() for row in await self._fetch("take_digest_items", **self._name)]
        told = tellings(advance, self._node, stored)
        if not told:
            return ()
        bodies = [(run_id, payload) for run_id, _, payload in told if payload is not None]
        rows = await self._fetch(
            "tell_digests",
            node=self._node,
            run_ids=[run_id for run_id, _, _ in told],
            message_ids=[message.id for _, message, _ in told],
            payloads=[json_text(message.payload) for _, message, _ in told],
            payload_refs=[json_text(message.payload_ref) for _, message, _ in told],
            body_run_ids=[run_id for run_id, _ in bodies],
            hashes=[payload.hash for _, payload in bodies],
            bodies=[payload.text.decode() for _, payload in bodies],
        )
        return tuple(row[0] for row in rows)

    async def _write(self, advance: Advance) -> None:
        window = advance.window
        if window is None:
            await self._fetch("remove_digest_window", **self._name)
            return
        await self._fetch(
            "write_digest_window",
            **self._name,
            leader_run_id=window.leader_run_id or None,
            leader_generation=window.leader_generation,
            closes_at_us=window.closes_at_us,
            max_items=window.max_items,
            item_count=window.item_count,
            item_bytes=window.item_bytes,
        )
        if advance.added:
            await self._fetch(
                "add_digest_items",
                **self._name,
                run_ids=[member.run_id for member in advance.added],
                generations=[member.generation for member in advance.added],
                items=[member.item.decode() for member in advance.added],
            )
