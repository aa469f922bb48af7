"""A batch: journal rows of many runs, decoded and counted once for all projections that stand at one place.

Rows are kept as columns. What the built-in projections have in common is worked out once, when the first of them asks:
the counts of events (`tally`), and since when each step was open (`spans`). Both are functions of the rows and of what
is given, so that it makes no difference who asks first.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from ductor.journal.postgres.feed import FeedColumns
from ductor.journal.records import Head
from ductor.projections.model import RunRow
from ductor.projections.open_steps import StepKey, StepSpans, keys_of, step_spans
from ductor.projections.rows import events_of_page, outlines_of_page
from ductor.projections.tally import Tally, tally_of


class RowBatch:
    """Rows of the feed, in its order, whose runs are all there.

    Attributes:
        columns: the rows as they were read.
        heads: of the runs that the batch is about, each once.
        runs: of each row, which of `heads` is its run's.
        outlines: of each row's events that are known here.
        skipped_by_row: how many events of a row are not known, for rows where there are any.
    """

    def __init__(self, columns: FeedColumns, heads: Mapping[str, Head]) -> None:
        self.columns = columns
        numbers: dict[str, int] = {}
        self.runs = [numbers.setdefault(run_id, len(numbers)) for run_id in columns.run_ids]
        self.heads = [heads[run_id] for run_id in numbers]
        self.outlines, self.skipped_by_row = outlines_of_page(columns)
        self._spans: tuple[Mapping[StepKey, int], StepSpans] | None = None

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def skipped_events(self) -> int:
        """How many events of all rows are not known here."""
        return sum(self.skipped_by_row.values())

    @cached_property
    def rows(self) -> Sequence[RunRow]:
        """Each row as a value of its own, its events in full."""
        columns = self.columns
        events_by_row, skipped_by_row = events_of_page(columns)
        return [
            RunRow(
                self.heads[self.runs[row]],
                columns.versions[row],
                columns.at_us[row],
                events,
                columns.size_bytes[row],
                skipped_by_row.get(row, 0),
                columns.position(row),
            )
            for row, events in enumerate(events_by_row)
        ]

    @cached_property
    def tally(self) -> Tally:
        """The counts of its events."""
        return tally_of(self)

    def count(self) -> None:
        """Count its events now, and not when the first projection asks."""
        _ = self.tally

    @cached_property
    def step_keys(self) -> Sequence[StepKey]:
        """The steps about which one has to know whether they were open before the batch."""
        return keys_of(self)

    def spans(self, known: Mapping[StepKey, int]) -> StepSpans:
        """Since when its steps were open; `known` are those that were open before it, as far as it is about them."""
        if self._spans is None or self._spans[0] != known:
            self._spans = known, step_spans(self, known)
        return self._spans[1]


def row_batch(columns: FeedColumns, heads: Mapping[str, Head]) -> RowBatch:
    """The rows of a page; those of a run that is not there any more are left out."""
    if not all(map(heads.__contains__, columns.run_ids)):
        columns = columns.only([row for row, run_id in enumerate(columns.run_ids) if run_id in heads])
    return RowBatch(columns, heads)
