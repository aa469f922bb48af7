"""`ductor queue depth`, `dead`, `replay`, `drop`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions, RedisOptions

if TYPE_CHECKING:
    from ductor.actors.queue.distributed import DistributedQueue
    from ductor.actors.queue.items import DeadLetter


def depth(
    *queues: str,
    database: DatabaseOptions = DatabaseOptions(),
    redis: RedisOptions = RedisOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Tell how much waits in queues, by tenant, and for how long.

    Parameters
    ----------
    queues
        Their names; `default` without any.
    """
    from ductor.cli.output import print_rows
    from ductor.cli.session import run_async
    from ductor.definitions.durations import format_duration_ms

    async def work() -> int:
        async with _opened(database, redis, output) as queue:
            depths = [await queue.depth(name) for name in queues or ("default",)]
        cells: list[tuple[str, ...]] = []
        for one in depths:
            cells.append((one.queue, "(all)", str(one.queued), str(one.in_flight), "", str(one.dead)))
            cells.extend(
                (one.queue, lane.tenant, str(lane.queued), str(lane.in_flight),
                 format_duration_ms(lane.oldest_age_ms) if lane.queued else "", "")
                for lane in one.lanes
            )  # fmt: skip
        columns = ("queue", "tenant", "waiting", "in hand", "oldest", "dead")
        print_rows(depths, output.output, columns, cells)
        return 0

    return run_async(work())


def dead(
    queue: str = "default",
    *,
    limit: Annotated[int, Parameter(help="How many at most.")] = 100,
    database: DatabaseOptions = DatabaseOptions(),
    redis: RedisOptions = RedisOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """List what was set aside after too many deliveries that ended without a word, the latest first."""
    from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL
    from ductor.cli.arguments import ArgumentError
    from ductor.cli.output import print_rows, timestamp
    from ductor.cli.session import run_async

    if not 1 <= limit <= MAX_ITEMS_PER_CALL:
        raise ArgumentError("--limit", f"from 1 to {MAX_ITEMS_PER_CALL}, found {limit}")

    async def work() -> int:
        async with _opened(database, redis, output) as opened:
            letters = await opened.dead_letters(queue, limit=limit)
        cells = [
            (letter.item.token, letter.item.tenant, str(letter.deliveries), timestamp(letter.dead_at_us), letter.tier)
            for letter in letters
        ]
        shown = [_as_row(letter) for letter in letters]
        print_rows(shown, output.output, ("token", "tenant", "deliveries", "set aside (UTC)", "tier"), cells)
        return 0

    return run_async(work())


def replay(
    queue: str,
    *tokens: str,
    database: DatabaseOptions = DatabaseOptions(),
    redis: RedisOptions = RedisOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Queue again what was set aside: the tokens given, or everything. Exit code 3 when a token is not there."""
    return _settle(queue, tokens, database, redis, output, is_replay=True)


def drop(
    queue: str,
    *tokens: str,
    database: DatabaseOptions = DatabaseOptions(),
    redis: RedisOptions = RedisOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Forget what was set aside: the tokens given. Its step goes on waiting until a timeout or a person ends it.

    Exit code 3 when a token is not there.
    """
    from ductor.cli.arguments import ArgumentError

    if not tokens:
        raise ArgumentError("tokens", "name those to forget; `ductor queue dead` lists them")
    return _settle(queue, tokens, database, redis, output, is_replay=False)


def _settle(
    queue: str,
    tokens: tuple[str, ...],
    database: DatabaseOptions,
    redis: RedisOptions,
    output: OutputOptions,
    *,
    is_replay: bool,
) -> int:
    from ductor.actors.queue.distributed import MAX_DEAD_LETTERS, MAX_ITEMS_PER_CALL
    from ductor.cli.failures import EXIT_NOT_FOUND, EXIT_OK
    from ductor.cli.output import print_rows
    from ductor.cli.session import run_async

    async def settle(opened: "DistributedQueue", named: list[str]) -> dict[str, bool]:
        call = opened.replay if is_replay else opened.drop
        found: dict[str, bool] = {}
        for start in range(0, len(named), MAX_ITEMS_PER_CALL):
            batch = named[start : start + MAX_ITEMS_PER_CALL]
            found.update(zip(batch, await call(queue, batch), strict=True))
        return found

    async def work() -> int:
        found: dict[str, bool] = {}
        async with _opened(database, redis, output) as opened:
            if tokens:
                found = await settle(opened, list(tokens))
            while not tokens and len(found) < MAX_DEAD_LETTERS:
                letters = await opened.dead_letters(queue, limit=MAX_ITEMS_PER_CALL)
                fresh = [letter.item.token for letter in letters if letter.item.token not in found]
                if not fresh:
                    break
                found |= await settle(opened, fresh)
        done = "queued again" if is_replay else "forgotten"
        cells = [(token, done if was_there else "not set aside") for token, was_there in found.items()]
        shown = [{"token": token, "was_set_aside": was_there} for token, was_there in found.items()]
        print_rows(shown, output.output, ("token", "outcome"), cells)
        return EXIT_OK if all(found.values()) else EXIT_NOT_FOUND

    return run_async(work())


def _as_row(letter: "DeadLetter") -> dict[str, object]:
    """A dead letter for programs, with its work as JSON."""
    import msgspec

    return {
        "token": letter.item.token,
        "queue": letter.item.queue,
        "tenant": letter.item.tenant,
        "deliveries": letter.deliveries,
        "dead_at_us": letter.dead_at_us,
        "tier": letter.tier,
        "work": msgspec.Raw(letter.item.body),
    }


@asynccontextmanager
async def _opened(
    database: DatabaseOptions, redis: RedisOptions, output: OutputOptions
) -> "AsyncIterator[DistributedQueue]":
    from ductor.cli.session import connected
    from ductor.queues import open_queue

    async with connected(database, output.output) as client, open_queue(client.engine.store, redis.settings) as queue:
        yield queue
