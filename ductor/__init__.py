"""Durable workflows inside your own service.

    import ductor

    @ductor.task("inventory.reserve")
    async def reserve(sku: str, qty: int) -> dict: ...

    async with ductor.Host(tasks=[reserve], definitions="flows/") as host:
        run = await host.start("order", {"order_id": "o-1", "sku": "A1", "qty": 2}, key="o-1")
        print(await run.result())

Names are loaded when they are first used: every room is a subpackage of this one, and importing a room must not
bring in the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ductor.actors.context import TaskContext
    from ductor.actors.errors import (
        ControlRefusedError,
        DefinitionNotFoundError,
        NonRetryable,
        RetryAfter,
        RunNotFoundError,
        UnsupportedDefinitionError,
        WaitTimeoutError,
    )
    from ductor.actors.tasks import Task, TaskRegistry, task
    from ductor.actors.views import HistoryRow, RunView, StepView
    from ductor.client import Client
    from ductor.definitions.errors import DefinitionError, DuctorError, Problem
    from ductor.definitions.triggers import TriggerError
    from ductor.errors import RunCancelledError, RunFailedError, RunTerminatedError, RunUnsuccessfulError
    from ductor.handle import RunHandle
    from ductor.host import Host
    from ductor.journal.errors import OverloadedError, StoreUnavailableError, ValueRefusedError
    from ductor.sync import SyncClient, SyncRunHandle

_HOMES = {
    "Client": "ductor.client",
    "ControlRefusedError": "ductor.actors.errors",
    "DefinitionError": "ductor.definitions.errors",
    "DefinitionNotFoundError": "ductor.actors.errors",
    "DuctorError": "ductor.definitions.errors",
    "HistoryRow": "ductor.actors.views",
    "Host": "ductor.host",
    "NonRetryable": "ductor.actors.errors",
    "OverloadedError": "ductor.journal.errors",
    "Problem": "ductor.definitions.errors",
    "RetryAfter": "ductor.actors.errors",
    "RunCancelledError": "ductor.errors",
    "RunFailedError": "ductor.errors",
    "RunHandle": "ductor.handle",
    "RunNotFoundError": "ductor.actors.errors",
    "RunTerminatedError": "ductor.errors",
    "RunUnsuccessfulError": "ductor.errors",
    "RunView": "ductor.actors.views",
    "StepView": "ductor.actors.views",
    "StoreUnavailableError": "ductor.journal.errors",
    "SyncClient": "ductor.sync",
    "SyncRunHandle": "ductor.sync",
    "Task": "ductor.actors.tasks",
    "TaskContext": "ductor.actors.context",
    "TaskRegistry": "ductor.actors.tasks",
    "TriggerError": "ductor.definitions.triggers",
    "UnsupportedDefinitionError": "ductor.actors.errors",
    "ValueRefusedError": "ductor.journal.errors",
    "WaitTimeoutError": "ductor.actors.errors",
    "task": "ductor.actors.tasks",
}

__all__ = [
    "Client",
    "ControlRefusedError",
    "DefinitionError",
    "DefinitionNotFoundError",
    "DuctorError",
    "HistoryRow",
    "Host",
    "NonRetryable",
    "OverloadedError",
    "Problem",
    "RetryAfter",
    "RunCancelledError",
    "RunFailedError",
    "RunHandle",
    "RunNotFoundError",
    "RunTerminatedError",
    "RunUnsuccessfulError",
    "RunView",
    "StepView",
    "StoreUnavailableError",
    "SyncClient",
    "SyncRunHandle",
    "Task",
    "TaskContext",
    "TaskRegistry",
    "TriggerError",
    "UnsupportedDefinitionError",
    "ValueRefusedError",
    "WaitTimeoutError",
    "task",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
