"""Those who ask something of the engine: they start runs and send what the plan says, and note what was answered.

An answer that does not come (the host died, the database is away) leaves its sender in the dark: he asks again under
the same key or id, through another process. What was answered is a promise, to which the final checks hold the engine.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec

from ductor.actors.client import Client
from ductor.actors.errors import (
    ControlRefusedError,
    HostStoppedError,
    MessageRefusedError,
    RunNotFoundError,
)
from ductor.actors.host import EngineHost
from ductor.actors.lineage import RunTree
from ductor.actors.runtime_errors import DirectoryClosedError
from ductor.journal.errors import OverloadedError, StoreUnavailableError
from ductor.journal.events import ControlKind
from scripts.simulation.machines import ASKING
from scripts.simulation.plan import TENANTS, Action, Plan, Start
from scripts.simulation.scheduler import Lane, SimulatedLoop
from scripts.simulation.violations import Violation, Violations

PATIENCE_S: Final = 6.0
PAUSE_S: Final = 0.7
MAX_TRIES: Final = 60

IN_THE_DARK: Final = (StoreUnavailableError, HostStoppedError, DirectoryClosedError, OverloadedError)
REFUSED: Final = (MessageRefusedError, ControlRefusedError, RunNotFoundError)

T = TypeVar("T")
Work = Callable[[Client], Awaitable[T]]


class Process(Protocol):
    """A process that can be asked something: a machine's host."""

    lane: Lane | None
    host: EngineHost | None


class NoAnswerError(Exception):
    """Nobody answered in time: what was asked may have happened or not."""


class Acknowledged(msgspec.Struct):
    """What senders were promised.

    Attributes:
        runs: run ids by number of their start; by_key: run ids that one key gave.
        messages, controls: (run id, request id) of what was accepted.
        events: (tenant, event id) of what was published.
    """

    runs: dict[int, str] = msgspec.field(default_factory=dict)
    by_key: dict[tuple[str, str, str], set[str]] = msgspec.field(default_factory=dict)
    messages: set[tuple[str, str]] = msgspec.field(default_factory=set)
    controls: set[tuple[str, str]] = msgspec.field(default_factory=set)
    events: set[tuple[str, str]] = msgspec.field(default_factory=set)


class Senders:
    """See the module's docstring."""

    def __init__(
        self, plan: Plan, loop: SimulatedLoop, processes: Sequence[Process], client: Client, violations: Violations
    ) -> None:
        self._plan, self._loop, self._processes, self._client = plan, loop, processes, client
        self._violations = violations
        self.acknowledged = Acknowledged()
        self._awaited: set[int] = set()
        self.on_awaited: Callable[[str, int], None] = lambda _run_id, _via: None

    # --- asking -------------------------------------------------------------------------------------------------------

    async def ask(self, via: int, work: "Work[T]") -> T:
        """Ask through one process. Raises NoAnswerError, and whatever the engine raises."""
        process = self._processes[via - 1] if via else None
        if process is None:
            return await asyncio.wait_for(_awaited(work, self._client), PATIENCE_S)
        lane, host = process.lane, process.host
        if lane is None or host is None:
            raise NoAnswerError
        answer: asyncio.Future[T] = self._loop.create_future()
        lane.start(relay(work, host, answer)).set_name(f"{ASKING} through {lane}")
        await asyncio.wait((answer,), timeout=PATIENCE_S)
        if not answer.done():
            answer.cancel()
            raise NoAnswerError
        return answer.result()

    async def insist(self, via: int, work: "Work[T]") -> T:
        """Ask until there is an answer, through one process after another. Raises what is an answer, too."""
        for number in range(MAX_TRIES):
            try:
                return await self.ask((via + number) % (len(self._processes) + 1), work)
            except (*IN_THE_DARK, NoAnswerError, TimeoutError):
                await asyncio.sleep(PAUSE_S)
        raise NoAnswerError

    # --- what the plan says -------------------------------------------------------------------------------------------

    async def start(self, number: int, start: Start) -> None:
        """Start a run, as often as the plan says."""
        await asyncio.sleep(start.at_ms / 1_000)
        await asyncio.gather(*(self._start_once(number, start, (start.via + time)) for time in range(start.times)))

    async def _start_once(self, number: int, start: Start, via: int) -> None:
        name = str(self._plan.definitions[start.definition]["name"])

        async def work(client: Client) -> str:
            return (await client.start(name, start.trigger, tenant=start.tenant, key=start.key)).run_id

        via %= len(self._processes) + 1
        try:
            run_id = await (self.insist(via, work) if start.key else self.ask(via, work))
        except (*IN_THE_DARK, NoAnswerError, TimeoutError):
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no answer that a sender should get
            self._unexpected(f"start {number}", error)
            return
        self.acknowledged.runs.setdefault(number, run_id)
        if start.awaited_via and number not in self._awaited:
            self._awaited.add(number)
            self.on_awaited(run_id, start.awaited_via)
        if start.key is not None:
            self.acknowledged.by_key.setdefault((start.tenant, name, start.key), set()).add(run_id)

    async def act(self, action: Action) -> None:
        """Send something, as often as the plan says."""
        await asyncio.sleep(action.at_ms / 1_000)
        run_id = self.acknowledged.runs.get(action.run)
        if run_id is None or action.run >= len(self._plan.starts):
            return
        tenant = self._plan.starts[action.run].tenant
        if action.member:
            run_id = await self._member(action, run_id, tenant)
        count = len(self._processes) + 1
        await asyncio.gather(
            *(self.send(action, run_id, tenant, (action.via + time) % count) for time in range(action.times))
        )

    async def _member(self, action: Action, run_id: str, tenant: str) -> str:
        """The run of a tree that an action is for."""
        try:
            tree = await self.insist(action.via, lambda client: client.tree(run_id, tenant=tenant))
        except NoAnswerError:
            return run_id
        members = list(_members(tree))
        return members[action.member % len(members)]

    async def send(self, action: Action, run_id: str, tenant: str, via: int) -> bool:
        """Send it once; whether it was accepted."""
        try:
            await self.insist(via, lambda client: self._sent(client, action, run_id, tenant))
        except (NoAnswerError, *REFUSED) as error:
            if action.kind == "wrong_tenant" and isinstance(error, RunNotFoundError):
                return False
            if isinstance(error, RunNotFoundError):
                self._unexpected(f"{action.kind} {action.request_id}", error)
            return False
        except Exception as error:  # noqa: BLE001 - as above
            self._unexpected(f"{action.kind} {action.request_id}", error)
            return False
        if action.kind == "wrong_tenant":
            self._violations.add(Violation("tenants", f"{action.request_id} reached a run of {tenant}", run_id))
        return True

    async def _sent(self, client: Client, action: Action, run_id: str, tenant: str) -> None:
        kind, request_id, known = action.kind, f"{action.request_id}", self.acknowledged
        if kind == "signal":
            await client.signal(run_id, action.name, action.payload, request_id=request_id, tenant=tenant)
            known.messages.add((run_id, request_id))
        elif kind == "event":
            await client.publish_event(action.name, action.payload, event_id=request_id, tenant=tenant)
            known.events.add((tenant, request_id))
        elif kind == "wrong_tenant":
            other = next(name for name in TENANTS if name != tenant)
            await client.signal(run_id, action.name, None, request_id=request_id, tenant=other)
        elif kind in {"vote", "case", "reply"}:
            step = await self._asking_step(client, action, run_id, tenant)
            if step:
                await self._answered(client, action, run_id, step)
                known.messages.add((run_id, request_id))
        else:
            await self._controlled(client, kind, run_id, request_id, tenant)  # type: ignore[arg-type]
            known.controls.add((run_id, request_id))

    async def _controlled(self, client: Client, kind: ControlKind, run_id: str, request_id: str, tenant: str) -> None:
        await client.request(run_id, kind, request_id=request_id, by="simulation", tenant=tenant)

    async def _asking_step(self, client: Client, action: Action, run_id: str, tenant: str) -> str | None:
        """A step of the run that asks for this, as the inbox says."""
        kinds = {"vote": "approval", "case": "human_loop", "reply": "interaction"}
        entries = await client.inbox(tenant=tenant)
        found = [one.item.node for one in entries if one.run_id == run_id and one.item.kind == kinds[action.kind]]
        return found[0] if found else None

    async def _answered(self, client: Client, action: Action, run_id: str, step: str) -> None:
        if action.kind == "vote":
            decision: Literal["approved", "rejected"] = "rejected" if action.name == "rejected" else "approved"
            await client.vote(run_id, step, decision, by=action.by, request_id=action.request_id)
        elif action.kind == "case":
            status = "resolved" if action.name == "resolved" or action.request_id[-1] in "02468" else "looked at"
            await client.work_case(run_id, step, by=action.by, status=status, request_id=action.request_id)
        else:
            await client.reply(run_id, step, {"n": 1}, by=action.by, request_id=action.request_id)

    def _unexpected(self, what: str, error: BaseException) -> None:
        self._violations.add(Violation("answers", f"{what} was answered with {error!r}"))


def _members(tree: RunTree) -> Iterator[str]:
    """The runs of a tree, each before those that it has started."""
    yield tree.head.run_id
    for child in tree.children:
        yield from _members(child)


async def _awaited(work: "Work[T]", client: Client) -> T:
    return await work(client)


async def relay(work: "Work[Any]", host: EngineHost, answer: "asyncio.Future[Any]") -> None:
    """Runs in the host's lane: what it finds goes to the sender, if he still waits."""
    try:
        result = await work(host)
    except Exception as error:  # noqa: BLE001 - the sender gets it
        if not answer.done():
            answer.set_exception(error)
    except asyncio.CancelledError:
        if not answer.done():
            answer.set_exception(NoAnswerError())
    else:
        if not answer.done():
            answer.set_result(result)
