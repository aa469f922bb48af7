"""What must hold of compaction: a row that stands for all rows before it, and the removal of these.

Rule *compaction*: the state that such a row holds is the one that folding all rows before it gives. A removal takes
rows from the beginning alone, only such that another row stands for, and large values that nothing names any more; what
a fresh coordinator loads is the same before and after. What is left proves itself as the whole does.
"""

from collections.abc import Callable, Iterable, Sequence

from ductor.actors.verify import comparable
from ductor.definitions.errors import DuctorError
from ductor.journal.codec import encode_state
from ductor.journal.compaction import is_compacted, state_before
from ductor.journal.records import LoadedRun, Transition
from ductor.journal.replay import fold_transition, loaded_state
from ductor.journal.state import RunState

Report = Callable[[str, str, str], None]


class Removals:
    """What was removed of journals, kept for those who judge. `report` takes run, rule and what is wrong."""

    def __init__(self) -> None:
        self.report: Report = lambda _run_id, _rule, _what: None
        self._rows: dict[str, list[Transition]] = {}
        self._values: dict[str, dict[str, bytes]] = {}

    def rows(self, run_id: str) -> list[Transition]:
        """The rows of a run that are gone, in order."""
        return self._rows.get(run_id, [])

    def values(self, run_id: str) -> dict[str, bytes]:
        """The large values of a run that are gone, by hash."""
        return self._values.get(run_id, {})

    def removed(
        self,
        before: LoadedRun,
        after: LoadedRun,
        rows: Sequence[Transition],
        values: dict[str, bytes],
        left: Iterable[bytes],
    ) -> None:
        """Rows and large values have just been removed.

        Args:
            before, after: the run as it would have been loaded, and as it is loaded now.
            rows, values: what is gone.
            left: all texts that the run still has beside its head.
        """
        run_id = before.head.run_id
        gone = self._rows.setdefault(run_id, [])
        expected = range(len(gone) + 1, len(gone) + 1 + len(rows))
        if [row.version for row in rows] != list(expected):
            self._say(run_id, f"versions {[row.version for row in rows]} were removed after {len(gone)}")
        gone.extend(rows)
        self._values.setdefault(run_id, {}).update(values)
        try:
            had, has = loaded_state(before), loaded_state(after)
        except DuctorError as error:
            self._say(run_id, f"what is left can't be loaded: {error}")
            return
        if comparable(had) != comparable(has):
            self._say(run_id, f"what is left after the removal of {len(rows)} rows gives another state")
        texts = [*left, encode_state(has)]
        for hash in values:
            if any(hash.encode() in text for text in texts):
                self._say(run_id, f"the large value {hash} was removed and is still named")

    def _say(self, run_id: str, what: str) -> None:
        self.report(run_id, "compaction", what)


def check_compacted(run_id: str, rows: Sequence[Transition], report: Callable[[str], None]) -> None:
    """Each row that stands for those before it says what they give.

    Args:
        rows: all that the run has ever had.
    """
    if not any(is_compacted(row.events) for row in rows):
        return
    state = RunState(run_id=run_id)
    for row in rows:
        if is_compacted(row.events):
            said = state_before(row)
            said.payloads = state.payloads
            if (comparable(said), said.last_hash) != (comparable(state), state.last_hash):
                report(f"version {row.version} does not hold the state that the rows before it give")
        fold_transition(state, row)
