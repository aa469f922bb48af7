"""Environments of the systems, in a folder that is kept: one for each, so that none constrains another.

An environment is made once for the packages that it is asked for, and again when those change.
"""

import subprocess
import sys
from pathlib import Path

import msgspec

from scripts.benchmarks.peers.systems import System

INSTALL_TIMEOUT_S = 300.0


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """A system that is ready: its Python, and the versions of what was asked for."""

    python: str
    versions: tuple[str, ...]


class NotInstalledError(Exception):
    """A system can't be installed; the text says what its installer said last."""


def install(system: System, cache: Path) -> Installed:
    """Make a system's environment below `cache`, unless it is there. Raises NotInstalledError."""
    if not system.packages:
        return Installed(python=sys.executable, versions=())
    home = cache / system.name
    python = home / "bin" / "python"
    wanted = "\n".join([*system.packages, system.npm_package, sys.version])
    stamp = home / "installed.txt"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
        _run([*pip, *system.packages])
        if system.npm_package:
            npm = ["npm", "install", "--prefix", str(cache / "npm"), "--no-audit", "--no-fund"]
            _run([*npm, system.npm_package])
        stamp.write_text(wanted, encoding="utf-8")
    return Installed(python=str(python), versions=_versions(system, python))


def _versions(system: System, python: Path) -> tuple[str, ...]:
    frozen = _run([str(python), "-m", "pip", "--disable-pip-version-check", "list", "--format=freeze"])
    names = {_name_of(package) for package in system.packages}
    versions = [line.replace("==", " ") for line in frozen.splitlines() if _name_of(line) in names]
    if system.npm_package:
        versions.append(system.npm_package.replace("@", " ").strip())
    return tuple(versions)


def _name_of(requirement: str) -> str:
    for end in "[=<>":
        requirement = requirement.partition(end)[0]
    return requirement.lower().replace("_", "-")


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S)
    except FileNotFoundError:
        raise NotInstalledError(f"{command[0]} is not there") from None
    except subprocess.TimeoutExpired:
        raise NotInstalledError(f"{' '.join(command[:4])} took longer than {INSTALL_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise NotInstalledError(f"{' '.join(command[:4])} failed: {said[-1] if said else 'it said nothing'}")
    return done.stdout
