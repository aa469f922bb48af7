"""Which runs a run has started, and those theirs: trees of heads, read one level at a time."""

from collections.abc import Sequence
from typing import Final

import msgspec

from ductor.actors.errors import RunNotFoundError
from ductor.journal.records import Head, RunFilter
from ductor.journal.store import Store

MAX_TREE_RUNS: Final = 1_000
"""Runs of a tree that are read at most."""


class RunTree(msgspec.Struct, frozen=True):
    """A run and those that it has started, oldest first.

    Attributes:
        is_cut: more runs belong here than were read, below this run or beside its children.
    """

    head: Head
    children: tuple["RunTree", ...] = ()
    is_cut: bool = False


async def run_tree(store: Store, run_id: str, *, tenant: str | None = None, limit: int = MAX_TREE_RUNS) -> RunTree:
    """The tree below a run, of at most `limit` runs, itself included; levels near the run come first.

    Raises RunNotFoundError.
    """
    root = await store.head(run_id)
    if root is None or tenant not in {None, root.tenant}:
        raise RunNotFoundError(run_id)
    room, level = min(limit, MAX_TREE_RUNS) - 1, [root]
    children: dict[str, list[Head]] = {}
    cut: set[str] = set()
    while level:
        page = await _level(store, [head.run_id for head in level], room)
        if len(page) > room:  # who is missing may belong to any of them
            cut.update(head.run_id for head in level)
            page = page[:room]
        for head in reversed(page):
            children.setdefault(head.parent_run_id or "", []).append(head)
        room -= len(page)
        level = list(page)
    return _tree(root, children, cut)


async def _level(store: Store, run_ids: Sequence[str], room: int) -> Sequence[Head]:
    which = RunFilter(parent_run_ids=tuple(run_ids), limit=room + 1, shows_continued=True)
    return await store.heads(which)


def _tree(head: Head, children: dict[str, list[Head]], cut: set[str]) -> RunTree:
    below = tuple(_tree(child, children, cut) for child in children.get(head.run_id, ()))
    return RunTree(head, below, head.run_id in cut)
