"""The checks behind `scripts/check`: format, lint, types, import arrows, the repository's own rules.

Each check runs as a command and is judged by its exit code. The type check is given every file by name and must report
that it checked as many, so that a file that falls out of its sight is a failure and not a silence.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from scripts import link_farm, tidy

CHECKOUT = Path(__file__).resolve().parent.parent
CHECKED_COUNT = re.compile(r"(?:checked |no issues found in )(\d+) source files?")
FAILED, PASSED = 1, 0


def main(arguments: list[str]) -> int:
    """Run the named checks, or all; go on after a failure; return 1 if any failed."""
    unknown = [name for name in arguments if name not in CHECKS]
    if unknown:
        print(f"scripts/check: unknown check {', '.join(unknown)}; there are: {' '.join(CHECKS)}", file=sys.stderr)
        return 2
    failed: list[str] = []
    for name in arguments or CHECKS:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        if CHECKS[name]() != PASSED:
            failed.append(name)
        print(f"   {'FAILED' if name in failed else 'passed'} in {time.monotonic() - began:.1f} s", flush=True)
    if failed:
        print(f"Checks failed: {' '.join(failed)}", flush=True)
    return FAILED if failed else PASSED


def check_format() -> int:
    """Check that ruff would not format anything anew."""
    return run("ruff", "format", "--check", "--quiet", ".", *python_scripts_without_suffix())


def check_lint() -> int:
    """Check ruff's rules."""
    return run("ruff", "check", "--quiet", "--output-format", "concise", ".", *python_scripts_without_suffix())


def check_types() -> int:
    """Check types, strictly, in every file of the rooms, the face, the tests and the scripts."""
    modules = [*package_modules(), *top_level_modules("tests"), *top_level_modules("scripts")]
    with tempfile.TemporaryDirectory(prefix="ductor-checks-") as folder:
        # A script without a suffix is no module; under a link with a suffix it is one.
        for script in python_scripts_without_suffix():
            name = Path(script).name.replace("-", "_")
            (Path(folder) / f"{name}.py").symlink_to(CHECKOUT / script)
            modules.append(name)
        return run_mypy([argument for module in modules for argument in ("-m", module)], len(modules), folder)


def check_arrows() -> int:
    """Check which room imports which, and that the pure core imports no effects."""
    farm = CHECKOUT / "scripts" / "namespace"
    return run("lint-imports", "--no-logo", "--no-cache", str(CHECKOUT / "pyproject.toml"), folder=farm)


def check_tidy() -> int:
    """Check the repository's own rules and its link farm."""
    lines = [*tidy.problems(CHECKOUT), *link_farm.problems(CHECKOUT)]
    for line in lines:
        print(line)
    return FAILED if lines else PASSED


CHECKS: dict[str, Callable[[], int]] = {
    "format": check_format,
    "lint": check_lint,
    "types": check_types,
    "arrows": check_arrows,
    "tidy": check_tidy,
}


def run(*command: str, folder: Path = CHECKOUT) -> int:
    """Run a command of this environment in `folder`; return its exit code."""
    return subprocess.run(as_installed(command), cwd=folder, check=False).returncode


def run_mypy(arguments: list[str], file_count: int, more_sources: str = "") -> int:
    """Run mypy; fail if it finds something, or did not check `file_count` files; `more_sources` is a further folder."""
    completed = subprocess.run(
        as_installed(("mypy", *arguments)),
        cwd=CHECKOUT,
        env=os.environ | {"MYPYPATH": more_sources},
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    print(completed.stdout, end="", flush=True)
    count = CHECKED_COUNT.search(completed.stdout)
    if completed.returncode == PASSED and (count is None or int(count[1]) != file_count):
        print(f"mypy was given {file_count} files and checked {count[1] if count else 'an unknown number'}.")
        return FAILED
    return completed.returncode


def as_installed(command: tuple[str, ...]) -> list[str]:
    """Return `command` with its tool taken from the running interpreter's environment."""
    tool = Path(sys.executable).with_name(command[0])
    return [str(tool), *command[1:]]


def package_modules() -> list[str]:
    """Return the names of all modules of the package, as they are once installed."""
    modules: list[str] = []
    for package, folder in [(link_farm.FACE, link_farm.FACE), *((f"ductor.{room}", room) for room in link_farm.ROOMS)]:
        modules.extend(module_names(CHECKOUT / folder, package))
    return modules


def top_level_modules(folder: str) -> list[str]:
    """Return the names of all modules below a folder of the checkout that is itself a package."""
    farm = CHECKOUT / "scripts" / "namespace"
    return module_names(CHECKOUT / folder, folder, skipped=farm)


def module_names(folder: Path, package: str, skipped: Path | None = None) -> list[str]:
    """Return the dotted names of all modules in `folder`, `skipped` left out."""
    names: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        if skipped is not None and skipped in path.parents:
            continue
        parts = path.relative_to(folder).with_suffix("").parts
        names.append(".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)]))
    return names


def python_scripts_without_suffix() -> list[str]:
    """Return the Python scripts that the tools would overlook, because their names don't end in .py."""
    return [
        str(path.relative_to(CHECKOUT))
        for path in sorted((CHECKOUT / "scripts").iterdir())
        if path.is_file() and not path.suffix and b"python" in path.read_bytes().partition(b"\n")[0]
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
