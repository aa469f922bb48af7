"""A small file system for PostgreSQL, which can be filled up: ext4 in a file, mounted through a loop device.

Mounting needs root and a kernel that allows it. Where it can't be done, `mounted_volume` says why, and there is none.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

TOOL_TIMEOUT_S: Final = 120.0
BALLAST: Final = "ballast"
BALLAST_STEP_BYTES: Final = 4096


class Volume:
    """A mounted file system. `folder` is for whoever is to run out of room."""

    def __init__(self, mount: Path) -> None:
        self.folder = mount / "room"
        self._ballast = mount / BALLAST
        self.folder.mkdir(mode=0o711, exist_ok=True)

    def fill(self) -> None:
        """Take all room that is left."""
        with self._ballast.open("ab") as ballast:
            step_bytes = self.free_bytes()
            while step_bytes >= BALLAST_STEP_BYTES:
                try:
                    os.posix_fallocate(ballast.fileno(), os.fstat(ballast.fileno()).st_size, step_bytes)
                except OSError:
                    step_bytes //= 2

    def release(self) -> None:
        """Give it back."""
        self._ballast.unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """What is left."""
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize


class NoVolumeError(Exception):
    """There can be no volume here; the text says why."""


@contextmanager
def mounted_volume(folder: Path, size_mb: int) -> Iterator[Volume]:
    """A volume in `folder`, unmounted at the end. Raises NoVolumeError."""
    image, mount = folder / "volume.img", folder / "volume"
    mount.mkdir(exist_ok=True)
    if os.geteuid() != 0:
        raise NoVolumeError("only root mounts file systems")
    with image.open("wb") as file:
        file.truncate(size_mb * 1024 * 1024)
    _run("mkfs.ext4", "-q", "-m", "0", "-F", str(image))
    _run("mount", "-o", "loop", str(image), str(mount))
    try:
        yield Volume(mount)
    finally:
        # lazily: a process that is just ending may still have its working directory there
        _run("umount", "--lazy", str(mount))
        image.unlink()


def _run(program: str, *arguments: str) -> None:
    if shutil.which(program) is None:
        raise NoVolumeError(f"there is no {program}")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise NoVolumeError(f"{program}: {done.stderr.strip() or done.stdout.strip()}")
