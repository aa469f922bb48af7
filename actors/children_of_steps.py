"""What people are told of a scatter's children, while they run and afterwards: counts, and pages of them. Pure."""

from typing import Final, Literal

import msgspec

from ductor.definitions.values import JsonValue
from ductor.journal.events import ErrorInfo
from ductor.journal.state import Fanout, NodeState, RunState

MAX_CHILDREN_PER_PAGE: Final = 1_000

ChildStepStatus = Literal["pending", "running", "waiting", "succeeded", "failed", "cancelled"]


class ChildCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many children a scatter has, and how far they are. Those that are not started are none of the others."""

    total: int
    started: int
    open: int
    succeeded: int
    failed: int
    cancelled: int


class ChildView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One child of a scatter.

    Attributes:
        index, key: of its item; ref: its name among the run's steps.
        attempts: dispatched so far, over all rounds; of a child that is a run of its own: runs started.
        waiting, until_us: what it waits for, and until when at most.
        child_run_id: the latest run, of a child that is one.
    """

    index: int
    key: str
    ref: str
    status: ChildStepStatus
    attempts: int = 0
    waiting: str = ""
    until_us: int | None = None
    child_run_id: str = ""
    output: JsonValue = None
    error: ErrorInfo | None = None


class ChildrenPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some children of a scatter, in the order of the items.

    Attributes:
        next_after: where the next page begins (`after`); None where this is the last one.
    """

    counts: ChildCounts
    children: tuple[ChildView, ...]
    next_after: int | None = None


def child_counts(fanout: Fanout) -> ChildCounts:
    """How far the children are."""
    return ChildCounts(
        total=fanout.total,
        started=fanout.started - len(fanout.again),
        open=fanout.open,
        succeeded=fanout.succeeded,
        failed=fanout.failed,
        cancelled=fanout.cancelled,
    )


def children_page(
    state: RunState, scatter: str, *, after: int, limit: int, status: ChildStepStatus | None = None
) -> ChildrenPage:
    """The children of a scatter that have an index above `after`, and this status if one is given.

    Args:
        limit: how many at most; no page has more than `MAX_CHILDREN_PER_PAGE`.
    """
    node = state.nodes.get(scatter)
    fanout = Fanout(total=0) if node is None or node.fanout is None else node.fanout
    limit = min(limit, MAX_CHILDREN_PER_PAGE)
    found: list[ChildView] = []
    for index in range(max(0, after + 1), fanout.total):
        child = _view(state, scatter, fanout, index)
        if status is None or child.status == status:
            if len(found) == limit:
                return ChildrenPage(
                    counts=child_counts(fanout), children=tuple(found), next_after=found[-1].index if found else after
                )
            found.append(child)
    return ChildrenPage(counts=child_counts(fanout), children=tuple(found))


def _view(state: RunState, scatter: str, fanout: Fanout, index: int) -> ChildView:
    ref = f"{scatter}[{index}]"
    node = state.nodes.get(ref) or NodeState()
    status = "cancelled" if state.is_terminal and node.status == "pending" else node.status
    assert status != "skipped"
    return ChildView(
        index=index,
        key=fanout.key(index),
        ref=ref,
        status=status,
        attempts=node.generation,
        waiting=node.waiting or "",
        until_us=node.until_us,
        child_run_id=node.child_run_id,
        output=state.value(node.output, node.output_ref) if status == "succeeded" else None,
        error=node.error,
    )
