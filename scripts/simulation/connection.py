"""A process's connection to the database, over a network that delays, loses and cuts.

Commits behave as those of the group-commit writer: queued at once, at most one of a run on its way, sent again under
the same commit id until their answer has come, for as long as the process lives. What was on its way when the process
died may still arrive.

Everything else is a statement of its own: it fails with StoreUnavailableError when the database is away or the
connection is cut, and then may have been carried out or not. Its answer tells what held when it was carried out, which
is not what holds when it arrives.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

from ductor.journal.commit import Commit, CommitAnswer
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.records import StoreHealth
from ductor.journal.store import Store
from scripts.simulation.chance import Chance
from scripts.simulation.database import SimulatedDatabase
from scripts.simulation.scheduler import Lane, SimulatedLoop
from scripts.simulation.weather import Weather

COMMIT_S: Final = 0.0006
CALL_S: Final = 0.0004
RESEND_S: Final = 0.4
REFUSAL_S: Final = 0.002

SEEN_LATE: Final = frozenset({"send_message", "deliver_event", "publish_event", "request_control"})
"""Statements whose rows others may see only after others have been written."""

SEEN_AFTER_S: Final = (0.05, 0.05, 0.5)
"""After how long, on average: most transactions are short."""

CommitHook = Callable[[Commit, str], None]


class _Pending:
    """A commit without an answer."""

    def __init__(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        self.commit, self.answer = commit, answer


class Connection:
    """A store as one process sees it. Make it with `connect`.

    Args:
        network: the lane in which messages travel: it is never frozen and never dies.
        on_commit: told `before` and `after` a commit of this process is written; it may kill the process.
    """

    def __init__(
        self,
        database: SimulatedDatabase,
        loop: SimulatedLoop,
        lane: Lane,
        network: Lane,
        weather: Weather,
        chance: Chance,
        *,
        host: int,
        on_commit: CommitHook,
    ) -> None:
        self._database, self._loop, self._lane, self._network = database, loop, lane, network
        self._weather, self._chance, self._host, self._on_commit = weather, chance, host, on_commit
        self._waiting: dict[str, deque[_Pending]] = {}
        self.queued = 0

    # --- commits ------------------------------------------------------------------------------------------------------

    def commit(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        """Queue a commit; `answer` is called once, in the process's lane."""
        if self._lane.is_dead:
            return
        self.queued += 1
        pending = _Pending(commit, answer)
        waiting = self._waiting.get(commit.run_id)
        if waiting is None:
            self._waiting[commit.run_id] = deque()
            self._send(pending)
        else:
            waiting.append(pending)

    def _send(self, pending: _Pending) -> None:
        delay_s = self._weather.delay_s("slow_commits", self._host, COMMIT_S)
        self._loop.call_later(delay_s, self._arrive, pending, context=self._network.context.copy())

    def _arrive(self, pending: _Pending) -> None:
        away_s = self._weather.database_back_in_s()
        if away_s:
            self._weather.struck["database_away"] += 1
        if away_s or self._weather.strikes("lost_commits", self._host):
            self._send_again(pending, away_s)
            return
        if self._lane.is_dead and self._chance.happens(0.5):
            return
        self._on_commit(pending.commit, "before")
        if self._lane.is_dead and self._chance.happens(0.8):
            return
        answer = self._database.judge(pending.commit)
        self._on_commit(pending.commit, "after")
        if self._weather.strikes("lost_answers", self._host):
            self._send_again(pending, 0.0)
            return
        delay_s = self._weather.delay_s("slow_commits", self._host, COMMIT_S)
        self._loop.call_later(delay_s, self._answer, pending, answer, context=self._lane.context.copy())

    def _send_again(self, pending: _Pending, at_least_s: float) -> None:
        """It is the process that sends again: a frozen one does not, a dead one never will."""
        pause_s = at_least_s + self._chance.waiting(RESEND_S)
        self._loop.call_later(pause_s, self._send, pending, context=self._lane.context.copy())

    def _answer(self, pending: _Pending, answer: CommitAnswer) -> None:
        self.queued -= 1
        waiting = self._waiting[pending.commit.run_id]
        if waiting:
            self._send(waiting.popleft())
        else:
            del self._waiting[pending.commit.run_id]
        pending.answer(answer)

    # --- everything else ----------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Nothing: the database serves."""

    async def close(self) -> None:
        """Nothing."""

    async def health(self) -> StoreHealth:
        """The state of the connection."""
        away = self._weather.database_back_in_s() > 0
        return StoreHealth(is_available=not away, queued_commits=self.queued, queue_limit=10_000)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_"):
            raise AttributeError(name)

        async def call(*arguments: Any, **named: Any) -> Any:
            answer: asyncio.Future[Any] = self._loop.create_future()
            self._travel(self._carry_out, answer, name, arguments, named)
            return await answer

        return call

    def _travel(self, arrive: Callable[..., None], *arguments: object) -> None:
        delay_s = self._weather.delay_s("slow_calls", self._host, CALL_S)
        self._loop.call_later(delay_s, arrive, *arguments, context=self._network.context.copy())

    def _carry_out(
        self, answer: "asyncio.Future[Any]", name: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        weather = self._weather
        if self._lane.is_dead and self._chance.happens(0.5):
            return
        if weather.database_back_in_s():
            weather.struck["database_away"] += 1
            self._fail(answer, "the database is away")
        elif weather.strikes("cut_calls", self._host):
            if self._chance.happens(0.5):
                self._settle(None, partial(self._database.call, name, arguments, named))
            self._fail(answer, "the connection was cut")
        elif name in SEEN_LATE and weather.strikes("late_rows", self._host):
            finish = self._database.begin_late(name, arguments, named)
            delay_s = self._chance.waiting(self._chance.one_of(SEEN_AFTER_S))
            self._loop.call_later(delay_s, self._settle, answer, finish, context=self._network.context.copy())
        else:
            self._settle(answer, partial(self._database.call, name, arguments, named))

    def _settle(self, answer: "asyncio.Future[Any] | None", work: Callable[[], Any]) -> None:
        """Carry it out; without `answer` nobody learns how it went."""
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - the caller gets it
            if answer is not None:
                self._travel(_set_exception, answer, error)
        else:
            if answer is not None:
                self._travel(_set_result, answer, result)

    def _fail(self, answer: "asyncio.Future[Any]", reason: str) -> None:
        delay_s = self._chance.waiting(REFUSAL_S)
        error = StoreUnavailableError(reason)
        self._loop.call_later(delay_s, _set_exception, answer, error, context=self._network.context.copy())


def _set_result(answer: "asyncio.Future[Any]", result: object) -> None:
    if not answer.done():
        answer.set_result(result)


def _set_exception(answer: "asyncio.Future[Any]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # who waited may be dead: it is no complaint then


def as_store(connection: Connection) -> Store:
    """A connection under the type that the engine knows."""
    return cast("Store", connection)
