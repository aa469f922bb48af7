"""How the queue between processes holds the attempts of a run that are in flight: for people who ask why it waits."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final

from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL, DistributedQueue
from ductor.actors.queue.errors import QueueUnavailableError
from ductor.actors.queue.items import TokenState
from ductor.actors.queue.opening import make_queue
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.journal.ids import attempt_token
from ductor.journal.state import RunState
from ductor.journal.store import Store

MAX_ATTEMPTS_LOOKED_UP: Final = 1_024
"""Attempts of one run that are looked up; nothing is known of the others."""

_log = logging.getLogger(__name__)


async def queued_attempts(
    state: RunState, store: Store, queue: DistributedQueue | None, redis: RedisSettings | None
) -> Mapping[str, TokenState] | None:
    """How the queue holds attempts of a run, by token; those that it does not hold are in a host, or on their way.

    Args:
        queue: an open one; without it that of the store is opened for the look.
        redis: the first tier of the queue that is opened.

    Returns:
        None where there is no queue, or where it can't be asked.
    """
    by_queue = _in_flight(state)
    if not by_queue:
        return {}
    held: dict[str, TokenState] = {}
    try:
        async with _open(store, queue, redis) as opened:
            if opened is None:
                return None
            for name, tokens in by_queue.items():
                for start in range(0, len(tokens), MAX_ITEMS_PER_CALL):
                    held.update(await opened.held(name, tokens[start : start + MAX_ITEMS_PER_CALL]))
    except QueueUnavailableError as error:
        _log.debug("where attempts of run %s are can't be told: %s", state.run_id, error)
        return None
    return held


def _in_flight(state: RunState) -> dict[str, list[str]]:
    """Tokens of attempts in flight, by queue."""
    running = ((ref, state.nodes[ref]) for ref in state.open_nodes if state.nodes[ref].status == "running")
    by_queue: dict[str, list[str]] = {}
    for ref, node in islice(running, MAX_ATTEMPTS_LOOKED_UP):
        by_queue.setdefault(node.queue, []).append(attempt_token(state.run_id, ref, node.generation))
    return by_queue


@asynccontextmanager
async def _open(
    store: Store, queue: DistributedQueue | None, redis: RedisSettings | None
) -> AsyncIterator[DistributedQueue | None]:
    if queue is not None:
        yield queue
        return
    made = make_queue(store, redis, lambda _disturbance: None)  # the hosts hear of it as well, and act on it
    if made is None:
        yield None
        return
    await made.open()
    try:
        yield made
    finally:
        await made.close()
