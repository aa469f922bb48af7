"""What must hold of runs that continue each other: one follows each, and no input is lost or told twice at a seam."""

from collections import Counter
from collections.abc import Callable

from ductor.journal.replay import loaded_state
from ductor.journal.state import RunState
from scripts.simulation.database import SimulatedDatabase
from scripts.simulation.watcher import Watcher

Report = Callable[[str, str, str], None]


def check_chains(database: SimulatedDatabase, watcher: Watcher, states: dict[str, RunState], report: Report) -> None:
    """Each chain as a whole.

    Args:
        states: of all runs, as their journals say.
    """
    for run_id, state in states.items():
        if state.chain_run_id is None and state.successor_run_id is not None:
            _check_chain(database, watcher, [states[member] for member in database.chain_of(run_id)], report)


def _check_chain(database: SimulatedDatabase, watcher: Watcher, runs: list[RunState], report: Report) -> None:
    first = runs[0]
    taken: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for number, state in enumerate(runs):
        run_id = state.run_id
        if number and (state.continued_from_run_id, state.chain_run_id) != (runs[number - 1].run_id, first.run_id):
            report(run_id, "chain", f"it continues {state.continued_from_run_id} of chain {state.chain_run_id}")
        if state.iteration != number:
            report(run_id, "chain", f"its iteration is {state.iteration}, and its place {number}")
        follows = runs[number + 1].run_id if number + 1 < len(runs) else None
        if state.successor_run_id != follows:
            report(run_id, "chain", f"its journal says that {state.successor_run_id} continues it, and {follows} does")
        taken.update(watcher.models[run_id].taken)
        asked.update(watcher.models[run_id].controls)
    for message_id, times in taken.items():
        if times > 1:
            report(first.run_id, "chain", f"message {message_id} was taken up by {times} runs of the chain")
    for request_id, times in asked.items():
        if times > 1:
            report(first.run_id, "chain", f"request {request_id} was carried out by {times} runs of the chain")
    _check_forwarded(database, [state.run_id for state in runs], report)


def _check_forwarded(database: SimulatedDatabase, run_ids: list[str], report: Report) -> None:
    """What was sent on has arrived: in all runs but the last, received = consumed + undelivered + forwarded."""
    later: set[str] = set()
    for number, run_id in reversed(list(enumerate(run_ids))):
        receipts = database.receipts(run_id)
        for message_id, disposition in receipts.items():
            if disposition == "forwarded" and message_id not in later:
                report(run_id, "chain", f"message {message_id} was forwarded, and no later run has it")
            if disposition in {"", "buffered"} and number + 1 < len(run_ids):
                report(run_id, "chain", f"message {message_id} is left behind in a run that was continued")
        later.update(receipts)


def states_of(database: SimulatedDatabase) -> dict[str, RunState]:
    """All runs as they stand."""
    return {run_id: loaded_state(database.call("load", (run_id,), {})) for run_id in database.run_ids()}
