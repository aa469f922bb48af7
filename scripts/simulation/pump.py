"""Sends open runs whatever they wait for, so that each can come to its end once the faults have stopped."""

from collections.abc import Iterator

from ductor.journal.records import LoadedRun
from ductor.journal.state import NodeState, RunState
from scripts.simulation.plan import PEOPLE, Action, ActionKind
from scripts.simulation.senders import Senders
from scripts.simulation.watcher import Watcher


async def pump_once(
    runs: list[tuple[LoadedRun, RunState]], round_number: int, senders: Senders, watcher: Watcher
) -> None:
    """Send each run what it waits for, once."""
    for run, state in runs:
        for number, (kind, name, by) in enumerate(_wanted(state)):
            action = Action(
                kind=kind,
                at_ms=0,
                run=0,
                request_id=f"pump-{round_number}-{run.head.run_id[-12:]}-{number}-0",
                name=name,
                by=by,
                payload={"id": _id(state), "n": 1},
            )
            via = (round_number + number) % 2
            await senders.send(action, state.run_id, watcher.tenants[state.run_id], via)


def _wanted(state: RunState) -> Iterator[tuple[ActionKind, str, str]]:
    if state.paused_at_us is not None:
        yield "resume", "", ""
        return
    for ref in state.open_nodes:
        yield from _wanted_by(state.nodes[ref])


def _wanted_by(node: NodeState) -> Iterator[tuple[ActionKind, str, str]]:
    for heard in node.names:
        kind, _, name = heard.partition(":")
        yield ("signal" if kind == "signal" else "event"), name, "pump"
    if node.waiting == "approval":
        for person in PEOPLE:
            yield "vote", "approved", person
    elif node.waiting == "interaction":
        yield "case", "resolved", PEOPLE[0]
        yield "reply", "", PEOPLE[0]


def _id(state: RunState) -> int:
    trigger = state.trigger
    found = trigger.get("id") if isinstance(trigger, dict) else None
    return found if isinstance(found, int) else 0
