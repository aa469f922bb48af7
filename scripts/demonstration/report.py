"""The report that the workflow writes: Markdown, from what its steps found."""

import hashlib
import os
from pathlib import Path

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """What a rule said."""

    level: str
    text: str


class FileSize(msgspec.Struct, frozen=True):
    """A file and its size."""

    path: str
    bytes: int


class FileWidth(msgspec.Struct, frozen=True):
    """A file and the length of its longest line."""

    path: str
    characters: int


class FileAge(msgspec.Struct, frozen=True):
    """A file and for how long it was left alone."""

    path: str
    days: int


class Inventory(msgspec.Struct, frozen=True):
    """Output of the step `inventory`, without the list of files."""

    count: int
    bytes: int
    largest: FileSize
    by_suffix: dict[str, int]


class Lines(msgspec.Struct, frozen=True):
    """Output of the step `count_lines`."""

    lines: int
    texts: int
    longest: FileWidth


class Fingerprint(msgspec.Struct, frozen=True):
    """Output of the step `fingerprint`."""

    sha256: str
    duplicates: list[list[str]]
    duplicate_count: int


class Links(msgspec.Struct, frozen=True):
    """Output of the step `links`."""

    links: int
    broken: list[str]
    broken_count: int


class Ages(msgspec.Struct, frozen=True):
    """Output of the step `ages`."""

    oldest: FileAge


class Inspected(msgspec.Struct, frozen=True):
    """All that the report tells."""

    folder: str
    run_id: str
    grade: str
    findings: list[Finding]
    inventory: Inventory
    lines: Lines
    fingerprint: Fingerprint
    links: Links
    ages: Ages


def write_report(path: Path, inspected: Inspected) -> dict[str, object]:
    """Write the report in one go, so that nobody ever sees half of it. Path, size and hash of what was written."""
    content = markdown(inspected).encode()
    draft = path.with_suffix(".draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return {"path": str(path), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def markdown(inspected: Inspected) -> str:
    """The report's text."""
    inventory, lines, links = inspected.inventory, inspected.lines, inspected.links
    findings = [f"* **{finding.level}**: {finding.text}" for finding in inspected.findings]
    sizes = [f"| {suffix} | {size:,} |" for suffix, size in inventory.by_suffix.items()]
    parts = [
        f"# Inspection of {inspected.folder}",
        f"Grade: **{inspected.grade}**. Run `{inspected.run_id}`.",
        "## Findings",
        "\n".join(findings) or "None.",
        "## Inventory",
        (
            f"{inventory.count:,} files of {inventory.bytes:,} bytes; the largest is `{inventory.largest.path}` "
            f"({inventory.largest.bytes:,} bytes). {lines.texts:,} of them are text, of {lines.lines:,} lines. "
            f"{links.links:,} symbolic links, {links.broken_count:,} of which lead nowhere. "
            f"`{inspected.ages.oldest.path}` was left alone for {inspected.ages.oldest.days:,} days."
        ),
        f"SHA-256 over all files: `{inspected.fingerprint.sha256}`",
        "\n".join(["| suffix | bytes |", "| --- | ---: |", *sizes]),
        *_named("Links that lead nowhere", links.broken, links.broken_count),
        *_named(
            "Contents that are there more than once",
            [", ".join(paths) for paths in inspected.fingerprint.duplicates],
            inspected.fingerprint.duplicate_count,
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _named(title: str, lines: list[str], count: int) -> list[str]:
    """A chapter with a list of paths, if there are any."""
    if not count:
        return []
    more = [f"* and {count - len(lines):,} more"] if count > len(lines) else []
    return [f"## {title}", "\n".join([*(f"* {line}" for line in lines), *more])]
