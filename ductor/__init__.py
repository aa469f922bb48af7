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
    from ductor.actors.bulk_controls import BulkReceipt
    from ductor.actors.children_of_steps import ChildCounts, ChildrenPage, ChildView
    from ductor.actors.context import TaskContext
    from ductor.actors.errors import (
        BulkControlRefusedError,
        ControlRefusedError,
        DefinitionNotFoundError,
        MessageRefusedError,
        NonRetryable,
        NotAScatterError,
        RetryAfter,
        RunNotFoundError,
        UnsupportedDefinitionError,
        WaitTimeoutError,
    )
    from ductor.actors.explain import Explanation
    from ductor.actors.reasons.reason import Reason
    from ductor.actors.tasks import Task, TaskRegistry, task
    from ductor.actors.verification import Verification
    from ductor.actors.views import HistoryRow, RunView, StepView
    from ductor.actors.what_if_verdict import WhatIf
    from ductor.client import Client
    from ductor.definitions.errors import DefinitionError, DuctorError, Problem
    from ductor.definitions.triggers import TriggerError
    from ductor.errors import RunCancelledError, RunFailedError, RunTerminatedError, RunUnsuccessfulError
    from ductor.handle import RunHandle
    from ductor.host import Host
    from ductor.journal.bulk_controls import BulkControl
    from ductor.journal.commit import InboxItem
    from ductor.journal.errors import OverloadedError, StoreUnavailableError, ValueRefusedError
    from ductor.journal.lease_store import LeaseEntry
    from ductor.journal.records import Control, ControlReceipt, EventReceipt, InboxEntry, MessageReceipt
    from ductor.projections.errors import (
        InvalidProjectionError,
        InvalidSearchError,
        ProjectionNotFoundError,
        ProjectionNotReadyError,
        ProjectionsUnavailableError,
    )
    from ductor.projections.model import Projection, RunRow, Statement
    from ductor.projections.read_models import ProjectionStatus
    from ductor.projections.search import FoundRun, RunPage, RunSearch
    from ductor.replay import Replay, replay_file
    from ductor.sync import SyncClient, SyncRunHandle
    from ductor.transaction import NotInPostgresError
    from ductor.worker import Worker

_HOMES = {
    "BulkControl": "ductor.journal.bulk_controls",
    "BulkControlRefusedError": "ductor.actors.errors",
    "BulkReceipt": "ductor.actors.bulk_controls",
    "ChildCounts": "ductor.actors.children_of_steps",
    "ChildView": "ductor.actors.children_of_steps",
    "ChildrenPage": "ductor.actors.children_of_steps",
    "Client": "ductor.client",
    "Control": "ductor.journal.records",
    "ControlReceipt": "ductor.journal.records",
    "ControlRefusedError": "ductor.actors.errors",
    "DefinitionError": "ductor.definitions.errors",
    "DefinitionNotFoundError": "ductor.actors.errors",
    "DuctorError": "ductor.definitions.errors",
    "EventReceipt": "ductor.journal.records",
    "Explanation": "ductor.actors.explain",
    "FoundRun": "ductor.projections.search",
    "HistoryRow": "ductor.actors.views",
    "Host": "ductor.host",
    "InboxEntry": "ductor.journal.records",
    "InboxItem": "ductor.journal.commit",
    "InvalidProjectionError": "ductor.projections.errors",
    "InvalidSearchError": "ductor.projections.errors",
    "LeaseEntry": "ductor.journal.lease_store",
    "MessageReceipt": "ductor.journal.records",
    "MessageRefusedError": "ductor.actors.errors",
    "NonRetryable": "ductor.actors.errors",
    "NotAScatterError": "ductor.actors.errors",
    "NotInPostgresError": "ductor.transaction",
    "OverloadedError": "ductor.journal.errors",
    "Problem": "ductor.definitions.errors",
    "Projection": "ductor.projections.model",
    "ProjectionNotFoundError": "ductor.projections.errors",
    "ProjectionNotReadyError": "ductor.projections.errors",
    "ProjectionStatus": "ductor.projections.read_models",
    "ProjectionsUnavailableError": "ductor.projections.errors",
    "Reason": "ductor.actors.reasons.reason",
    "Replay": "ductor.replay",
    "RetryAfter": "ductor.actors.errors",
    "RunCancelledError": "ductor.errors",
    "RunFailedError": "ductor.errors",
    "RunHandle": "ductor.handle",
    "RunNotFoundError": "ductor.actors.errors",
    "RunPage": "ductor.projections.search",
    "RunRow": "ductor.projections.model",
    "RunSearch": "ductor.projections.search",
    "RunTerminatedError": "ductor.errors",
    "RunUnsuccessfulError": "ductor.errors",
    "RunView": "ductor.actors.views",
    "Statement": "ductor.projections.model",
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
    "Verification": "ductor.actors.verification",
    "WaitTimeoutError": "ductor.actors.errors",
    "WhatIf": "ductor.actors.what_if_verdict",
    "Worker": "ductor.worker",
    "replay_file": "ductor.replay",
    "task": "ductor.actors.tasks",
}

__all__ = [
    "BulkControl",
    "BulkControlRefusedError",
    "BulkReceipt",
    "ChildCounts",
    "ChildView",
    "ChildrenPage",
    "Client",
    "Control",
    "ControlReceipt",
    "ControlRefusedError",
    "DefinitionError",
    "DefinitionNotFoundError",
    "DuctorError",
    "EventReceipt",
    "Explanation",
    "FoundRun",
    "HistoryRow",
    "Host",
    "InboxEntry",
    "InboxItem",
    "InvalidProjectionError",
    "InvalidSearchError",
    "LeaseEntry",
    "MessageReceipt",
    "MessageRefusedError",
    "NonRetryable",
    "NotAScatterError",
    "NotInPostgresError",
    "OverloadedError",
    "Problem",
    "Projection",
    "ProjectionNotFoundError",
    "ProjectionNotReadyError",
    "ProjectionStatus",
    "ProjectionsUnavailableError",
    "Reason",
    "Replay",
    "RetryAfter",
    "RunCancelledError",
    "RunFailedError",
    "RunHandle",
    "RunNotFoundError",
    "RunPage",
    "RunRow",
    "RunSearch",
    "RunTerminatedError",
    "RunUnsuccessfulError",
    "RunView",
    "Statement",
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
    "Verification",
    "WaitTimeoutError",
    "WhatIf",
    "Worker",
    "replay_file",
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
