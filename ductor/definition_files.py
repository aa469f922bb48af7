"""Definitions out of files, folders and Python, with every problem of all of them at once."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from ductor.definitions.compile import Compiled, compile_document, compile_text
from ductor.definitions.errors import DefinitionError, Place, Problem

SUFFIXES: Final = (".yaml", ".yml", ".json")
SCENARIO_SUFFIX: Final = ".scenario.yaml"
TEXT_HINT: Final = "A text is taken as a path: write the definition to a file, or give it as a dictionary."


class SourceDefinition(msgspec.Struct, frozen=True):
    """A compiled definition, the file it came from, and the file's text."""

    compiled: Compiled
    file: str
    text: str


DefinitionSource: TypeAlias = str | Path | Mapping[str, object] | Compiled | SourceDefinition
"""A file, a folder, a document made in Python (`ductor.definitions.build`), or what was compiled before."""


def definition_files(*paths: str | Path) -> list[Path]:
    """The definition files among these files and folders; folders are searched, scenario files in them left out.

    Raises:
        DefinitionError: a path does not exist, or a folder holds no definition.
    """
    files: list[Path] = []
    problems: list[Problem] = []
    for path in map(Path, paths):
        try:
            found = sorted(_in_folder(path)) if path.is_dir() else [path]
            is_there = path.exists()
        except (OSError, ValueError) as error:  # too long a name, no right to look, a NUL
            problems.append(_unreadable(path, error))
            continue
        if not is_there:
            hint = TEXT_HINT if "\n" in str(path) else ""
            problems.append(_problem("file_not_found", path, "there is no such file or folder", hint))
        elif not found:
            hint = f"Definitions end in {', '.join(SUFFIXES)}."
            problems.append(_problem("no_definitions", path, "the folder holds no definitions", hint))
        files.extend(found)
    if problems:
        raise DefinitionError(problems)
    return list(dict.fromkeys(files))


def read_definitions(*sources: DefinitionSource) -> list[SourceDefinition]:
    """Compile definitions, in the order given; a folder's in order of files.

    Raises:
        DefinitionError: with all problems of all sources.
    """
    found: list[SourceDefinition] = []
    problems: list[Problem] = []
    for source in _without_folders(sources):
        try:
            found.extend(_compiled(source))
        except DefinitionError as error:
            problems.extend(error.problems)
    problems.extend(_name_clashes(found))
    if problems:
        raise DefinitionError(problems)
    return found


def _without_folders(sources: Iterable[DefinitionSource]) -> Iterator[DefinitionSource]:
    paths = [source for source in sources if isinstance(source, str | Path)]
    files = definition_files(*paths) if paths else []
    yield from files
    yield from (source for source in sources if not isinstance(source, str | Path))


def _compiled(source: DefinitionSource) -> Iterator[SourceDefinition]:
    match source:
        case SourceDefinition():
            yield source
        case Compiled():
            yield SourceDefinition(source, "", "")
        case Mapping():
            yield SourceDefinition(compile_document(source), "", "")
        case _:
            text = _text_of(Path(source))
            yield from (SourceDefinition(one, str(source), text) for one in compile_text(text, file=str(source)))


def _in_folder(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix in SUFFIXES and not path.name.endswith(SCENARIO_SUFFIX) and path.is_file() and not hidden:
            yield path


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        hint = "Save it as UTF-8."
        raise DefinitionError([_problem("not_utf8", file, f"byte {error.start} is not UTF-8", hint)]) from error
    except OSError as error:
        raise DefinitionError([_unreadable(file, error)]) from error


def _name_clashes(found: Iterable[SourceDefinition]) -> Iterator[Problem]:
    """One name in two files, both without a version label or with the same one: which is the newest would be chance."""
    seen: dict[tuple[str, str], SourceDefinition] = {}
    for one in found:
        manifest = one.compiled.manifest
        first = seen.setdefault((manifest.name, manifest.version), one)
        if first.compiled.manifest_hash != one.compiled.manifest_hash:
            label = f" version {manifest.version}" if manifest.version else ""
            message = (
                f"`{manifest.name}`{label} is defined differently {f'in {first.file}' if first.file else 'before'}"
            )
            yield _problem("duplicate_definition", Path(one.file), message, "Rename one, or label their versions.")


def _unreadable(path: Path, error: OSError | ValueError) -> Problem:
    message = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return _problem("unreadable_file", path, message, TEXT_HINT if "\n" in str(path) else "")


def _problem(code: str, file: Path, message: str, hint: str = "") -> Problem:
    return Problem(code=code, message=message, place=Place(file=_shown(file)), hint=hint)


def _shown(path: Path) -> str:
    """A path for a message; of one that is a whole text its first line with something in it."""
    lines = str(path).strip().splitlines() or [""]
    text = str(path) if len(lines) == 1 else f"{lines[0]} …"
    return text.replace("\0", "\\0")
