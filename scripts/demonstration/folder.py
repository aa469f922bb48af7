"""What the demonstration does with a folder: ordinary functions that read files and know nothing of workflows."""

import hashlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

MAX_FILES = 5_000
"""Files listed at most; the report says so when there are more."""
MAX_NAMED = 20
"""Broken links and duplicates named at most; all are counted."""
PASSED_OVER = frozenset({"__pycache__", "node_modules"})
"""Folders not looked into, beside the hidden ones."""
CHUNK_BYTES = 1 << 20
DAY_S = 86_400


class File(msgspec.Struct, frozen=True):
    """A file of the inventory; `path` is relative to the folder."""

    path: str
    bytes: int


def inventory(folder: str) -> dict[str, object]:
    """List the files of a folder with their sizes, sorted by path."""
    found = (path for path in _paths(folder) if path.is_file() and not path.is_symlink())
    paths = list(itertools.islice(found, MAX_FILES + 1))
    files = [File(path.relative_to(folder).as_posix(), path.stat().st_size) for path in paths[:MAX_FILES]]
    sizes = Counter[str]()
    for file in files:
        sizes[Path(file.path).suffix or "(none)"] += file.bytes
    largest = max(files, key=lambda file: file.bytes, default=File("", 0))
    return {
        "count": len(files),
        "bytes": sum(file.bytes for file in files),
        "largest": msgspec.to_builtins(largest),
        "by_suffix": dict(sizes.most_common(MAX_NAMED)),
        "is_cut": len(paths) > MAX_FILES,
        "files": msgspec.to_builtins(files),
    }


def count_lines(folder: str, files: list[File]) -> dict[str, object]:
    """Count the lines of the files that are text, and find the longest line."""
    lines, texts, longest = 0, 0, ("", 0)
    for file in files:
        try:
            content = (Path(folder) / file.path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        texts += 1
        rows = content.splitlines()
        lines += len(rows)
        width = max(map(len, rows), default=0)
        if width > longest[1]:
            longest = (file.path, width)
    return {"lines": lines, "texts": texts, "longest": {"path": longest[0], "characters": longest[1]}}


def fingerprint(folder: str, files: list[File]) -> dict[str, object]:
    """Hash every file: one hash over all, and the contents that are there more than once."""
    paths_by_hash: dict[str, list[str]] = {}
    whole = hashlib.sha256()
    for file in files:
        digest = hashlib.sha256()
        try:
            with (Path(folder) / file.path).open("rb") as content:
                while chunk := content.read(CHUNK_BYTES):
                    digest.update(chunk)
        except FileNotFoundError:
            continue
        whole.update(f"{file.path}\0{digest.hexdigest()}\n".encode())
        if file.bytes:
            paths_by_hash.setdefault(digest.hexdigest(), []).append(file.path)
    duplicates = [paths for paths in paths_by_hash.values() if len(paths) > 1]
    return {"sha256": whole.hexdigest(), "duplicates": duplicates[:MAX_NAMED], "duplicate_count": len(duplicates)}


def check_links(folder: str) -> dict[str, object]:
    """Find symbolic links that lead nowhere."""
    links = [path for path in _paths(folder) if path.is_symlink()]
    broken = [path.relative_to(folder).as_posix() for path in links if not path.exists()]
    return {"links": len(links), "broken": broken[:MAX_NAMED], "broken_count": len(broken)}


def ages(folder: str, files: list[File]) -> dict[str, object]:
    """Find the file that was left alone for the longest."""
    oldest, since = "", time.time()
    for file in files:
        try:
            changed_at = (Path(folder) / file.path).stat().st_mtime
        except FileNotFoundError:
            continue
        if changed_at < since:
            oldest, since = file.path, changed_at
    return {"oldest": {"path": oldest, "days": int((time.time() - since) / DAY_S)}}


def _paths(folder: str) -> Iterator[Path]:
    """Whatever stands in the folder and below, links to folders included, in a fixed order."""
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in PASSED_OVER)
        for name in sorted((*folders, *names)):
            yield Path(here) / name
