"""A second opinion on scatters: which child may begin, and when the scatter is done.

Rule *children*: a child begins while its scatter waits, once, in the order of the items, after the pause between two
starts; when all children have settled the scatter settles in the same row, with their numbers, and none is under way
after it, unless its run is ending. A redrive begins those anew that it says, the others stay.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from ductor.journal.events import NodeReset, NodeSettled, ScatterStarted

_CHILD: Final = re.compile(r"([a-z][a-z0-9_]*)\[(\d+)\]")


class Fan(msgspec.Struct):
    """One scatter: children that have not begun, in order, those under way, and how the others ended."""

    interval_us: int
    to_begin: list[int]
    under_way: set[int] = msgspec.field(default_factory=set)
    ended: dict[int, str] = msgspec.field(default_factory=dict)
    is_open: bool = True


class ScatterModel:
    """The scatters of one run. `report` takes what is wrong."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._fans: dict[str, Fan] = {}

    def start(self, event: ScatterStarted) -> None:
        """A scatter has its items, or goes on with them."""
        fan = self._fans.get(event.node)
        if event.is_resumed and fan is not None:
            fan.is_open = True
            return
        if event.is_resumed:
            self._report(f"{event.node} goes on and never began")
        self._fans[event.node] = Fan(event.interval_ms * 1_000, list(range(event.total)))

    def begin(self, ref: str) -> tuple[str, int] | None:
        """A child begins. The scatter whose next child has to wait, and how long, if there is such a pause."""
        scatter, index = parts(ref)
        fan = self._fans.get(scatter)
        if fan is None or not fan.is_open:
            self._report(f"{ref} begins and its scatter does not wait")
            return None
        if not fan.to_begin or fan.to_begin[0] != index:
            self._report(f"{ref} begins out of turn; {fan.to_begin[:3]} come first")
        if index in fan.to_begin:
            fan.to_begin.remove(index)
        fan.under_way.add(index)
        return (scatter, fan.interval_us) if fan.to_begin and fan.interval_us else None

    def settle(self, event: NodeSettled) -> None:
        """A child or a scatter settles."""
        if is_child(event.node):
            scatter, index = parts(event.node)
            fan = self._fans[scatter]
            fan.under_way.discard(index)
            fan.ended[index] = event.status
        elif event.node in self._fans:
            self._fans[event.node].is_open = False
            if event.status == "succeeded":
                self._check_counts(event, self._fans[event.node])

    def _check_counts(self, event: NodeSettled, fan: Fan) -> None:
        statuses = list(fan.ended.values())
        counted = {status: statuses.count(status) for status in ("succeeded", "failed")}
        total = len(fan.ended) + len(fan.to_begin) + len(fan.under_way)
        expected = {"total": total, **counted, "cancelled": total - sum(counted.values())}
        if event.output != expected:
            self._report(f"{event.node} counts {event.output}, and it is {expected}")

    def reset(self, resets: Mapping[str, NodeReset]) -> Iterator[str]:
        """A redrive. Gives the children that begin anew, or are gone with their items."""
        for ref, reset in resets.items():
            fan = self._fans.get(ref)
            if fan is None:
                continue
            if not reset.keeps_children:
                yield from (f"{ref}[{index}]" for index in fan.ended)
                del self._fans[ref]
                continue
            again = [
                index
                for index, status in fan.ended.items()
                if (index in reset.children if reset.children else status != "succeeded")
            ]
            fan.to_begin = [*sorted(again), *(index for index in fan.to_begin if index not in fan.ended)]
            for index in again:
                del fan.ended[index]
                yield f"{ref}[{index}]"

    def end_row(self, *, is_run_ending: bool) -> None:
        """A row is over: what is done has settled, and has no children under way."""
        for ref, fan in self._fans.items():
            if not fan.is_open and fan.under_way and not is_run_ending:
                self._report(f"{ref} has settled and its children {sorted(fan.under_way)} are under way")
            if fan.is_open and not fan.to_begin and not fan.under_way:
                self._report(f"all children of {ref} have settled, and it waits")


def is_child(ref: str) -> bool:
    """Whether this names a scatter's child."""
    return _CHILD.fullmatch(ref) is not None


def parts(ref: str) -> tuple[str, int]:
    """The scatter and the index of a child."""
    match = _CHILD.fullmatch(ref)
    assert match is not None
    return match[1], int(match[2])
