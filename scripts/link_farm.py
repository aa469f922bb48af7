#!/usr/bin/env python3
"""Keeps the link farm: `scripts/namespace/ductor`, the package as it looks once installed.

The rooms are top-level folders of the checkout and subpackages of `ductor` for everyone who imports them. Python
follows that mapping; type checkers and import analysers don't, so they read the farm: relative symbolic links to each
room and to each entry of the face.

Run it to add missing links and drop stale ones: `scripts/link_farm.py`.
"""

import os
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
FACE = "ductor"
ROOMS = ("actors", "definitions", "journal", "projections")
LINKED_FACE_SUFFIXES = (".py", ".typed")


def wanted_links(checkout: Path) -> dict[str, Path]:
    """Return the links that the farm should hold: name in the farm -> target relative to the checkout."""
    links = {room: Path(room) for room in ROOMS}
    for entry in sorted((checkout / FACE).iterdir()):
        if entry.name == "__pycache__":
            continue
        if entry.is_dir() or entry.suffix in LINKED_FACE_SUFFIXES:
            links[entry.name] = Path(FACE) / entry.name
    return links


def problems(checkout: Path) -> list[str]:
    """Return one line for each link that is missing, stale or leads elsewhere."""
    farm = farm_folder(checkout)
    found = {entry.name: entry for entry in farm.iterdir() if entry.name != "__pycache__"}
    lines: list[str] = []
    for name, target in wanted_links(checkout).items():
        entry = found.pop(name, None)
        if entry is None:
            lines.append(f"scripts/namespace/ductor/{name}: the link is missing (run scripts/link_farm.py)")
        elif not entry.is_symlink() or entry.readlink() != relative_target(target):
            lines.append(f"scripts/namespace/ductor/{name}: not a link to {relative_target(target)}")
    lines.extend(f"scripts/namespace/ductor/{name}: stale (run scripts/link_farm.py)" for name in found)
    return lines


def refresh(checkout: Path) -> None:
    """Make the farm's links what they should be; what is no link is left for a person to judge."""
    farm = farm_folder(checkout)
    farm.mkdir(parents=True, exist_ok=True)
    wanted = wanted_links(checkout)
    for entry in farm.iterdir():
        if entry.is_symlink() and (entry.name not in wanted or entry.readlink() != relative_target(wanted[entry.name])):
            entry.unlink()
    for name, target in wanted.items():
        if not os.path.lexists(farm / name):
            (farm / name).symlink_to(relative_target(target))


def farm_folder(checkout: Path) -> Path:
    """Return the farm's folder."""
    return checkout / "scripts" / "namespace" / FACE


def relative_target(target: Path) -> Path:
    """Return what a link must hold to lead from the farm's folder to `target` of the checkout."""
    return Path("../../..") / target


if __name__ == "__main__":
    refresh(CHECKOUT)
    remaining = problems(CHECKOUT)
    print("\n".join(remaining) or "The link farm is up to date.")
    sys.exit(bool(remaining))
