"""A whole engine for a test: real coordinators, workers and timers, a store in memory, and virtual time.

@virtual_time
async def test_a_declined_card_cancels_the_order():
    async with Engine(definitions="flows/", mocks={"payments.charge": [NonRetryable("no", type="Declined")]}) as engine:
        run = await engine.start("order", {"order_id": "o-1"})
        with pytest.raises(RunFailedError, match="Declined"):
            await run.result()
        assert engine.calls.counts()["payments.charge"] == 1
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from ductor.actors.client import Client as EngineClient
from ductor.actors.tasks import Task, TaskRegistry, task
from ductor.definition_files import DefinitionSource
from ductor.definitions.errors import DuctorError
from ductor.host import Host
from ductor.journal.memory import MemoryStore
from ductor.journal.store import Store
from ductor.testing.calls import CallLog, Mock, recorded
from ductor.testing.clock import RepeatableIds, VirtualClock
from ductor.testing.loop import VirtualTimeLoop
from ductor.testing.scenarios.runner import PATIENT_HOST


class NotInVirtualTimeError(DuctorError):
    """A test engine was made on an ordinary event loop."""

    code = "not_in_virtual_time"

    def __init__(self) -> None:
        super().__init__("a test engine lives in virtual time: decorate the test with `ductor.testing.virtual_time`")


class Engine(Host):
    """A host in memory and in virtual time; see the module's docstring.

    Args:
        tasks: real handlers.
        definitions: as for `Host`.
        mocks: answers by handler name, one after another, the last one for ever; they replace real handlers.
        takes_s: virtual seconds that handlers take before a mocked answer, by name.

    Attributes:
        calls: what reached the handlers.
        clock: virtual time. Move it by `asyncio.sleep`.
    """

    def __init__(
        self,
        *,
        tasks: Iterable[Task[..., Any] | Callable[..., Any]] = (),
        definitions: DefinitionSource | Sequence[DefinitionSource] = (),
        mocks: Mapping[str, Sequence[object]] | None = None,
        takes_s: Mapping[str, float] | None = None,
        tenant: str = "default",
    ) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualTimeLoop):
            raise NotInVirtualTimeError
        self.clock: VirtualClock = loop.clock
        self.calls = CallLog(self.clock)
        given = {
            name: Mock(name, answers, takes_s=(takes_s or {}).get(name, 0.0)) for name, answers in (mocks or {}).items()
        }
        real = TaskRegistry(one if isinstance(one, Task) else task(one) for one in tasks)  # refuses what a host refuses
        handlers = [recorded(one, self.calls) for one in real if one.name not in given]
        super().__init__(
            tasks=[*handlers, *(mock.task(self.calls) for mock in given.values())],
            definitions=definitions,
            database=MemoryStore(self.clock),
            tenant=tenant,
            options=PATIENT_HOST,
            clock=self.clock,
            ids=RepeatableIds(self.clock),
        )

    async def _make_engine(self, store: Store, stack: AsyncExitStack) -> EngineClient:
        await store.open()
        stack.push_async_callback(store.close)
        return await super()._make_engine(store, stack)
