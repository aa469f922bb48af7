"""The repository's own rules, checked without running anything it holds.

Linters know Python; this knows the habits of this repository: small files and functions, names that say something, no
marks of unfinished work, tests that wait for signals, step types in pairs, documents that are linked. Each broken rule
is one line: `path:line: what is wrong`. The rules are functions from a checkout to such lines, so that each has a test
in which it fails.

Only the standard library is used. Symbolic links and whatever tools generate are left out.
"""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

LINES_PER_FILE_MAX = 450
LINES_PER_FUNCTION_MAX = 60

# Files that may be longer, each with its reason. An entry that is not needed any more is a broken rule too.
LONGER_FILES: dict[str, str] = {
    "journal/events.py": "the vocabulary of the journal is one module",
    "journal/postgres/schema.sql": "the whole schema in one file is what it is for",
}

# Step types that are declared and have no behaviour, each with its reason; stale entries are broken rules as well.
DECLARED_ONLY: dict[str, str] = dict.fromkeys(
    (
        "connector",
        "route",
    ),
    "the tick that drives it is not built",
)

ROOMS = ("actors", "definitions", "journal", "projections")
FACE = "ductor"
PURE_CORE = (
    "actors/steps/",
    "actors/tick/",
    "definitions/",
    "journal/chain.py",
    "journal/codec.py",
    "journal/events.py",
    "journal/fold.py",
    "journal/fold_children.py",
    "journal/fold_ends.py",
    "journal/open_nodes.py",
    "journal/state.py",
)
IMPURE_CALLS = frozenset(
    {"monotonic", "monotonic_ns", "now", "perf_counter", "today", "urandom", "utcnow", "uuid1", "uuid4", "uuid7"}
)
VIRTUAL_TIME = frozenset({"Bench", "SimulatedLoop", "VirtualTimeLoop", "run_in_virtual_time", "virtual_time"})
VIRTUAL_TIME_MODULES = ("ductor.testing", "scripts.simulation", "tests.actors.hosting")
STEP_TYPES = (
    "approval",
    "conditional",
    "connector",
    "digest",
    "event_set",
    "gather",
    "human_loop",
    "interaction",
    "route",
    "rule",
    "scatter",
    "subworkflow",
    "task",
    "transform",
    "wait",
)

SKIPPED_FOLDERS = frozenset({"__pycache__", "build", "dist", "node_modules"})
SKIPPED_TREES = ("ductor/web/",)  # the built page
CODE_SUFFIXES = frozenset({"", ".css", ".lua", ".py", ".sh", ".sql", ".ts", ".tsx"})
TEXT_SUFFIXES = CODE_SUFFIXES | {".html", ".md", ".toml", ".yaml", ".yml"}
SCRIPT_FOLDERS = ("scripts", ".ci")
# They name what they forbid.
RULE_FILES = frozenset({"scripts/tidy.py", "tests/repository/test_tidy.py"})
# A text of others, kept as it is.
FOREIGN_FILES = frozenset({"LICENSE"})

BANNED_NAMES = frozenset({"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"})
MARKS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\b([Ff]or now)\b")
MACHINE_PATHS = re.compile(r"(?<![\w./])(/home/\w+|/Users/\w+|/root/)|\b[A-Z]:\\Users\\")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def problems(checkout: Path) -> list[str]:
    """Return every broken rule of the checkout, one line each, sorted."""
    found: list[str] = []
    for name in source_files(checkout):
        text = (checkout / name).read_text(encoding="utf-8")
        found.extend(name_problems(name))
        found.extend(text_problems(name, text))
        if name.endswith(".py"):
            found.extend(python_problems(name, ast.parse(text, filename=name)))
    found.extend(script_problems(checkout))
    found.extend(step_problems(checkout))
    found.extend(document_problems(checkout))
    found.extend(
        f"{name}: listed in LONGER_FILES, but there is no such file"
        for name in LONGER_FILES
        if not (checkout / name).exists()
    )
    return sorted(found)


def source_files(checkout: Path) -> Iterator[str]:
    """Yield the files that people write, relative to the checkout: nothing hidden but `.ci`, no link, nothing built."""
    for folder, subfolders, files in os.walk(checkout):
        here = Path(folder).relative_to(checkout)
        subfolders[:] = sorted(
            name
            for name in subfolders
            if (not name.startswith(".") or name == ".ci")
            and name not in SKIPPED_FOLDERS
            and not name.endswith(".egg-info")
            and f"{(here / name).as_posix()}/" not in SKIPPED_TREES
        )
        for file in sorted(files):
            path = here / file
            if (
                path.suffix in TEXT_SUFFIXES
                and not (checkout / path).is_symlink()
                and path.as_posix() not in FOREIGN_FILES
            ):
                yield path.as_posix()


def name_problems(name: str) -> Iterator[str]:
    """Yield names of files and folders that say nothing about their content."""
    for part in Path(name).with_suffix("").parts:
        banned = BANNED_NAMES.intersection(part.lower().replace("-", "_").split("_"))
        for word in sorted(banned):
            yield f"{name}: `{word}` says nothing: name it after the one thing that it holds"


def text_problems(name: str, text: str) -> Iterator[str]:
    """Yield files that are too long, marks of unfinished work, and paths of somebody's machine."""
    lines = text.splitlines()
    too_long = len(lines) > LINES_PER_FILE_MAX and Path(name).suffix in CODE_SUFFIXES
    if too_long and name not in LONGER_FILES:
        yield f"{name}: {len(lines)} lines, more than {LINES_PER_FILE_MAX}: split it by what it holds"
    if not too_long and name in LONGER_FILES:
        yield f"{name}: {len(lines)} lines: short enough, remove it from LONGER_FILES"
    if name in RULE_FILES:
        return
    for number, line in enumerate(lines, start=1):
        if mark := MARKS.search(line):
            yield f"{name}:{number}: `{mark[0]}`: finish it, or open an issue and say here what holds today"
        if path := MACHINE_PATHS.search(line):
            yield f"{name}:{number}: `{path[0]}` is a path of one machine"


def python_problems(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield long functions, sleeping tests, imports of the face by rooms, and effects in the pure core."""
    in_room = name.split("/", 1)[0] in ROOMS
    in_core = name.startswith(PURE_CORE)
    # chaos chooses its moments by chance: there the passing of time is what is tried, not waited for
    sleeps_wait = name.startswith("tests/") and not name.startswith("tests/chaos/") and not runs_in_virtual_time(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from function_problems(name, node)
        elif in_room and isinstance(node, ast.Import | ast.ImportFrom):
            yield from face_import_problems(name, node)
        elif isinstance(node, ast.Call) and in_core and called_name(node) in IMPURE_CALLS:
            yield f"{name}:{node.lineno}: `{called_name(node)}()` in the pure core: take the value as an argument"
        elif isinstance(node, ast.Call) and sleeps_wait and is_sleep(node):
            yield f"{name}:{node.lineno}: a test that sleeps guesses: wait for a signal (`asyncio.sleep(0)` may yield)"


def function_problems(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the function if it is too long."""
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    if length > LINES_PER_FUNCTION_MAX:
        yield f"{name}:{node.lineno}: `{node.name}` has {length} lines, more than {LINES_PER_FUNCTION_MAX}: split it"


def face_import_problems(name: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the import if it reaches into the face."""
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for module in modules:
        package, _, rest = module.partition(".")
        if package == FACE and rest.split(".", 1)[0] not in ROOMS:
            yield f"{name}:{node.lineno}: a room imports `{module}` of the face: import the room that holds it"


def called_name(node: ast.Call) -> str:
    """Return the last part of what is called, or nothing."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def is_sleep(node: ast.Call) -> bool:
    """Say whether a call waits for time to pass; to yield once is no waiting."""
    if called_name(node) != "sleep":
        return False
    if isinstance(node.func, ast.Attribute):
        module = node.func.value
        if not (isinstance(module, ast.Name) and module.id in {"anyio", "asyncio", "time"}):
            return False
    first = node.args[0] if node.args else None
    return not (isinstance(first, ast.Constant) and first.value == 0)


def runs_in_virtual_time(tree: ast.Module) -> bool:
    """Say whether a module imports what makes its loop jump over sleeps instead of waiting."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {
        alias.name for node in imports if (node.module or "").startswith(VIRTUAL_TIME_MODULES) for alias in node.names
    }
    return not names.isdisjoint(VIRTUAL_TIME)


def script_problems(checkout: Path) -> Iterator[str]:
    """Yield scripts that can't be run, and files that could be run but say not by what."""
    for folder in SCRIPT_FOLDERS:
        for path in sorted((checkout / folder).glob("*")):
            if not path.is_file():
                continue
            name = path.relative_to(checkout).as_posix()
            has_shebang = path.read_bytes().startswith(b"#!/usr/bin/env ")
            is_executable = os.access(path, os.X_OK)
            if has_shebang and not is_executable:
                yield f"{name}: has a shebang, but is not executable: chmod +x"
            if is_executable and not has_shebang:
                yield f"{name}: is executable, but does not begin with `#!/usr/bin/env `"
            if not path.suffix and not has_shebang:
                yield f"{name}: a script begins with `#!/usr/bin/env ` and is executable"


def step_problems(checkout: Path) -> Iterator[str]:
    """Yield step types whose declaration or behaviour is missing."""
    for step_type in STEP_TYPES:
        declaration, behaviour = f"definitions/steps/{step_type}.py", f"actors/steps/{step_type}.py"
        is_declared, behaves = (checkout / declaration).exists(), (checkout / behaviour).exists()
        if is_declared and not behaves and step_type not in DECLARED_ONLY:
            yield f"{declaration}: has no counterpart {behaviour}"
        if behaves and not is_declared:
            yield f"{behaviour}: has no counterpart {declaration}"
        if behaves and step_type in DECLARED_ONLY:
            yield f"{behaviour}: the step type has behaviour now, remove it from DECLARED_ONLY"


def document_problems(checkout: Path) -> Iterator[str]:
    """Yield documents that docs/README.md does not link, and links that lead nowhere."""
    index = checkout / "docs" / "README.md"
    indexed = {(index.parent / link).resolve() for link in links_of(index)} if index.exists() else set()
    for name in source_files(checkout):
        path = checkout / name
        if path.suffix != ".md":
            continue
        if name.startswith("docs/") and path != index and path.resolve() not in indexed:
            yield f"{name}: docs/README.md does not link it"
        for link in links_of(path):
            if not (path.parent / link).exists():
                yield f"{name}: the link to {link} leads nowhere"


def links_of(document: Path) -> list[str]:
    """Return the targets of a document's relative links."""
    targets = LINK.findall(document.read_text(encoding="utf-8"))
    return [target for target in targets if "://" not in target and not target.startswith("mailto:")]
