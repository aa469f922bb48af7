#!/usr/bin/env python3
"""Writes the reference pages that the source itself holds: events, tables, limits, configuration.

    scripts/reference_pages.py      write docs/reference/{events,tables,limits,configuration}.md anew

A test compares the pages with the source, so that a new event, table, limit or setting can't go undocumented: what
people read is the docstring, the comment on the table, or the text under the constant. Only the standard library is
used, and nothing of the package is imported.
"""

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
FOLDER = Path("docs/reference")
NOTE = "<!-- Written by scripts/reference_pages.py from the source; change it there. -->"

EMPTY = {"dict": "{}", "list": "[]", "tuple": "()"}
LIMIT_ROOMS = ("definitions", "journal", "actors", "projections")
SETTINGS = {
    "actors/host.py": ("HostOptions",),
    "actors/engine_options.py": ("EngineOptions",),
    "actors/worker_options.py": ("WorkerOptions",),
    "actors/queue/redis/settings.py": ("RedisSettings",),
    "journal/postgres/settings.py": ("ConnectionSettings", "WriterLimits"),
    "definitions/limits.py": ("Limits",),
    "projections/projector.py": ("ProjectorOptions",),
}
TABLE = re.compile(r"CREATE TABLE ductor\.(\w+) \(\n(.*?)\n\)[^;]*;", re.DOTALL)
ATTRIBUTE = re.compile(r"((?:\w+, )*\w+): (.*)")
COMMENT = re.compile(r"COMMENT ON TABLE ductor\.(\w+) IS\s+'((?:[^']|'')*)'", re.DOTALL)

EVENTS_INTRO = """# Events

Each row of a journal holds the events of one tick as a JSON list, each with its `type`. What a row absorbed from
outside (inputs) stands before what the tick decided. [The journal](journal.md) tells how rows hang together."""
TABLES_INTRO = """# Tables

Everything lives in the schema `ductor`. Times are whole microseconds since the epoch (UTC); `ductor.eec_time(us)` gives
a timestamp. Only the journal (`eec_workflow_transition`) is the truth: heads, timers and snapshots can be made anew
from it, and the rest is input that waits to be consumed, or was. [The journal](journal.md) tells how to read it."""
LIMITS_INTRO = """# Limits

Every queue, loop, payload and expression has a bound with a name. Going over one is a clear error, or work that goes on
in the next turn; nothing is dropped in silence. What can be set stands in [configuration](configuration.md); these
can't."""
CONFIGURATION_INTRO = """# Configuration

A host is configured in Python; there is no configuration file.

```python
import ductor
from ductor.actors.engine_options import EngineOptions
from ductor.actors.host import HostOptions

host = ductor.Host(options=HostOptions(drain_ms=60_000, engine=EngineOptions(concurrency=512, threads=32)))
```

The command line takes its database from `--database` or `DUCTOR_DATABASE`, its tenant from `--tenant` or
`DUCTOR_TENANT`, hosts and workers their Redis from `--redis` or `DUCTOR_REDIS_URL`. Without a database both command
line and Python use an embedded server in `.ductor/postgres`."""


def pages(checkout: Path) -> dict[str, str]:
    """Return the pages' texts by file name."""
    return {
        "events.md": page(EVENTS_INTRO, event_chapters(checkout)),
        "tables.md": page(TABLES_INTRO, table_chapters(checkout)),
        "limits.md": page(LIMITS_INTRO, limit_chapters(checkout)),
        "configuration.md": page(CONFIGURATION_INTRO, setting_chapters(checkout)),
    }


def page(intro: str, chapters: Iterator[str]) -> str:
    """Return a page."""
    return "\n\n".join([NOTE, intro, *chapters]) + "\n"


def event_chapters(checkout: Path) -> Iterator[str]:
    """Yield a chapter for each event, in the order of the source."""
    for node in classes(checkout / "journal/events.py"):
        tag = next((word.value for word in node.keywords if word.arg == "tag"), None)
        if tag is None:
            continue
        fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
        rows = [
            f"| `{ast.unparse(field.target)}` | {code(field.annotation)} | {default_of(field)} |" for field in fields
        ]
        yield "\n".join([
            f"## {ast.literal_eval(tag)}", "", *told(node), "", "| field | type | default |", "| --- | --- | --- |",
            *rows,
        ])  # fmt: skip


def table_chapters(checkout: Path) -> Iterator[str]:
    """Yield a chapter for each table: its comment and its columns as they are declared."""
    text = (checkout / "journal/postgres/schema.sql").read_text(encoding="utf-8")
    comments = {name: words.replace("''", "'") for name, words in COMMENT.findall(text)}
    for name, columns in TABLE.findall(text):
        yield f"## {name}\n\n{comments[name]}\n\n```sql\n{textwrap.dedent(columns)}\n```"


def limit_chapters(checkout: Path) -> Iterator[str]:
    """Yield a chapter for each module that names bounds and says what they mean."""
    for room in LIMIT_ROOMS:
        for file in sorted((checkout / room).rglob("*.py")):
            rows = [f"| `{name}` | {value:,} | {meaning} |" for name, value, meaning in constants(file)]
            if rows:
                module = ".".join(("ductor", *file.relative_to(checkout).with_suffix("").parts))
                yield "\n".join([f"## `{module}`", "", "| name | value | meaning |", "| --- | ---: | --- |", *rows])


def constants(file: Path) -> Iterator[tuple[str, int | float, str]]:
    """Yield the public numbers of a module that have a text under them: name, value, text."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    known: dict[str, Any] = {}
    for node, below in zip(body, [*body[1:], None], strict=True):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if not isinstance(target, ast.Name) or not target.id.isupper() or not isinstance(value, ast.expr):
            continue
        names = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
        if not names <= known.keys() or any(isinstance(part, ast.Call) for part in ast.walk(value)):
            continue
        number = eval(ast.unparse(value), {"__builtins__": {}}, known)  # noqa: S307 - arithmetic of our own source
        known[target.id] = number
        if isinstance(number, int | float) and not target.id.startswith("_") and is_text(below):
            yield target.id, number, one_line(ast.literal_eval(below.value))  # type: ignore[union-attr]


def setting_chapters(checkout: Path) -> Iterator[str]:
    """Yield a chapter for each struct of settings: its fields with their defaults, and what they mean."""
    for file, names in SETTINGS.items():
        for node in classes(checkout / file):
            if node.name not in names:
                continue
            module = ".".join(("ductor", *Path(file).with_suffix("").parts))
            rows = [
                f"| `{ast.unparse(field.target)}` | {default_of(field)} |"
                for field in node.body
                if isinstance(field, ast.AnnAssign)
            ]
            yield "\n".join([
                f"## `{module}.{node.name}`", "", *told(node), "",
                "| setting | default |", "| --- | --- |", *rows,
            ])  # fmt: skip


def told(node: ast.ClassDef) -> list[str]:
    """Return the lines of a class's docstring, its `Attributes` as a list. Its absence is a mistake in the source."""
    text = ast.get_docstring(node)
    if text is None:
        raise ValueError(f"{node.name} has no docstring")
    summary, _, attributes = text.partition("\n\nAttributes:\n")
    lines = [*summary.splitlines(), ""]
    for line in textwrap.dedent(attributes).splitlines():
        entry = ATTRIBUTE.match(line)
        if entry is None:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(f"* {', '.join(f'`{name}`' for name in entry[1].split(', '))}: {entry[2]}")
    return lines if attributes else lines[:-1]


def classes(file: Path) -> Iterator[ast.ClassDef]:
    """Yield the classes of a module."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node


def default_of(field: ast.AnnAssign) -> str:
    """Return a field's default as the page shows it."""
    if field.value is None:
        return "required"
    made = re.fullmatch(r"msgspec\.field\(default_factory=(\w+)\)", ast.unparse(field.value))
    return f"`{EMPTY[made[1]]}`" if made and made[1] in EMPTY else code(field.value)


def code(node: ast.expr) -> str:
    """Return an expression as code in a table's cell."""
    return f"`{ast.unparse(node)}`".replace("|", "\\|")


def is_text(node: ast.stmt | None) -> bool:
    """Say whether a statement is a text alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def one_line(text: str) -> str:
    """Return a text without its line breaks."""
    return " ".join(text.split())


def write(checkout: Path) -> None:
    """Write the pages."""
    for name, text in pages(checkout).items():
        (checkout / FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(CHECKOUT)
    sys.exit(0)
