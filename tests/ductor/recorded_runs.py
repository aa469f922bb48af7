"""Runs of a real engine in virtual time, recorded for tests of replay, export and import."""

import msgspec

from ductor.actors.tasks import task
from ductor.definition_files import SourceDefinition
from ductor.definitions.compile import compile_text
from ductor.journal.exporting import Exporter
from ductor.journal.records import RunFilter
from ductor.journal.store import Store
from ductor.testing import Engine

ORDER = """\
ductor: 1
name: order
input: {type: object, required: [sku], properties: {sku: {type: string}, qty: {type: integer}}}
context: {total: 0}
timeout: 30d
output: {tracking: "${steps.ship.output.tracking}"}
on: [{signal: note, effects: {note: "${event.payload}"}}]
steps:
  - {ref: reserve, type: task, task: reserve, input: {sku: "${trigger.sku}"}, retry: {max_attempts: 3, initial: 1s},
     effects: {total: "${output.total}"}, next: {choice: [{when: output.total > 100, to: approve}, {to: ship}]}}
  - {ref: approve, type: approval, approvers: [ann], timeout: 10d, next: {done: ship}}
  - {ref: ship, type: task, task: ship, join: any, input: {total: "${context.total}"}}
"""


@task("reserve")
async def reserve(sku: str) -> dict[str, object]:
    return {"total": 1_000 if sku == "dear" else 10, "list": "x" * 40_000 if sku == "large" else ""}


@task("ship")
def ship(total: int) -> dict[str, object]:
    return {"tracking": f"T-{total}"}


def engine(**options: object) -> Engine:
    """An engine in memory that knows the order."""
    given: dict[str, object] = {"tasks": [reserve, ship], "definitions": [document()], **options}
    return Engine(**given)  # type: ignore[arg-type]


def document(text: str = ORDER) -> SourceDefinition:
    """A definition with its text, as out of a file."""
    (compiled,) = compile_text(text, file="order.yaml")
    return SourceDefinition(compiled, "order.yaml", text)


async def export(store: Store, *run_ids: str) -> bytes:
    """An export file of these runs, or of all."""
    exporter = Exporter(store)
    wanted = run_ids or tuple(head.run_id for head in await store.heads(RunFilter(limit=1_000)))
    lines = [await exporter.header()]
    for run_id in wanted:
        lines += [line async for line in exporter.run(run_id)]
    return b"".join([*lines, exporter.end()])


def lines_of(text: bytes) -> list[bytes]:
    """A file's lines with their ends."""
    return text.splitlines(keepends=True)


def edited(text: bytes, number: int, /, **fields: object) -> bytes:
    """The file with other fields in one of its lines."""
    lines = lines_of(text)
    lines[number] = msgspec.json.encode({**msgspec.json.decode(lines[number]), **fields}) + b"\n"
    return b"".join(lines)
