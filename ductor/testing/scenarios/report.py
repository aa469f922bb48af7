"""The result of a scenario as text: what differed, and the run's history."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ductor.definitions.durations import format_duration_ms
from ductor.journal.events import Event
from ductor.testing.scenarios.comparison import Difference
from ductor.testing.scenarios.model import Scenario
from ductor.testing.scenarios.played import Played

ROWS_SHOWN: Final = 60
EVENT_WIDTH: Final = 180


def failure_text(scenario: Scenario, played: Played, found: Sequence[Difference]) -> str:
    """What a person needs to see of a scenario that went otherwise than expected."""
    lines = [f"{scenario.place.file}:{scenario.place.line}: scenario `{scenario.name}`"]
    lines.extend(f"  {difference}" for difference in found)
    if played.history:
        lines.append("  what happened:")
        lines.extend(f"    {line}" for line in _history(played))
    return "\n".join(lines)


def _history(played: Played) -> Iterator[str]:
    start_us = played.history[0].at_us
    for row in played.history[:ROWS_SHOWN]:
        after = format_duration_ms((row.at_us - start_us) // 1_000)
        for number, event in enumerate(row.events):
            prefix = f"{row.version:>4} +{after}" if number == 0 else ""
            yield f"{prefix:<16} {describe(event)}"
    if len(played.history) > ROWS_SHOWN:
        yield f"... and {len(played.history) - ROWS_SHOWN} rows more"


def describe(event: Event) -> str:
    """An event in one line: its tag, and its fields as JSON, cut where they are long."""
    fields = msgspec.to_builtins(event)
    tag = fields.pop("type")
    text = f"{tag} {msgspec.json.encode(fields).decode()}" if fields else str(tag)
    return text if len(text) <= EVENT_WIDTH else text[: EVENT_WIDTH - 1] + "…"
