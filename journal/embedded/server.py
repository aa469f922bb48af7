"""`EmbeddedPostgres`: one user's hold on an embedded server.

Several users (in one process or in many) may name the same directory. The first starts the server, the others join
it, the last one to leave stops it. A user that is killed is no user any more; the server itself runs on, and the next
start joins it (or, with `stop_on_parent_death`, a small watcher ends it). A killed server is started again, on the
same port.
"""

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import asyncpg

from ductor.journal.embedded.cluster import LOOPBACK, SUPERUSER, Cluster, Options, Postmaster, works_in
from ductor.journal.embedded.errors import EmbeddedPostgresError
from ductor.journal.embedded.users import Users

SUPERVISION_INTERVAL_S = 0.25
MAX_REACHES = 20
"""Tries to connect to a server that was just joined or started, `SUPERVISION_INTERVAL_S` apart."""

NOT_THERE_YET: tuple[type[Exception], ...] = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
)
"""What connecting to a server raises that is starting, or is being stopped or killed."""

FSYNC_OFF: Options = {"fsync": False, "synchronous_commit": False, "full_page_writes": False}

_logger = logging.getLogger(__name__)


class EmbeddedPostgres:
    """A PostgreSQL server in `directory`, started when entered and stopped by its last user.

    * `fsync`: False gives up durability for speed; for unit tests only.
    * `options`: server settings (`{"max_connections": 200}`), used when this user is the one who starts the server.
    * `port`: the TCP port on the loopback address; None takes a free one.
    * `database`: made when missing, and the default of `dsn()`.
    * `stop_on_parent_death`: end the server also when this process is killed; for tests and demonstrations.
    * `restart`: start the server again when its process disappears while in use.

    Entering raises EmbeddedPostgresError; its `kind` says why.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        fsync: bool = True,
        options: Options | None = None,
        port: int | None = None,
        database: str = "ductor",
        stop_on_parent_death: bool = False,
        restart: bool = True,
    ) -> None:
        self.directory = Path(directory).absolute()
        self._fsync = fsync
        self._options: Options = {**({} if fsync else FSYNC_OFF), **(options or {})}
        self._port = port
        self._database = database
        self._stop_on_parent_death = stop_on_parent_death
        self._restart = restart
        self._users = Users(self.directory)
        self._cluster: Cluster | None = None
        self._postmaster: Postmaster | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._supervision: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._enter)
        try:
            await self._reach()
        except BaseException:
            await asyncio.to_thread(self._leave)
            raise
        if self._restart:
            self._supervision = asyncio.create_task(self._supervise(), name="embedded PostgreSQL supervision")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._supervision is not None:
            self._supervision.cancel()
            await asyncio.wait([self._supervision])
        await asyncio.to_thread(self._leave)

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._known().pid

    @property
    def port(self) -> int:
        """The server's TCP port on the loopback address."""
        return self._known().port

    def dsn(self, database: str | None = None, *, tcp: bool = False) -> str:
        """The address of a database: over the server's own socket, or over TCP with the superuser's password."""
        name = quote(database or self._database, safe="")
        postmaster, cluster = self._known(), self._cluster
        assert cluster is not None
        if tcp:
            return f"postgresql://{SUPERUSER}:{cluster.password}@{LOOPBACK}:{postmaster.port}/{name}"
        folder = quote(postmaster.socket_directory, safe="")
        return f"postgresql://{SUPERUSER}@/{name}?host={folder}&port={postmaster.port}"

    async def create_database(self, name: str, *, template: str = "template1") -> None:
        """Make a database as a copy of `template`; nobody may be connected to the template."""
        connection: asyncpg.Connection = await asyncpg.connect(self.dsn("postgres"))
        try:
            await connection.execute(f"CREATE DATABASE {_quoted(name)} TEMPLATE {_quoted(template)}")
        finally:
            await connection.close()

    async def drop_database(self, name: str) -> None:
        """Remove a database, cutting the connections to it."""
        connection: asyncpg.Connection = await asyncpg.connect(self.dsn("postgres"))
        try:
            await connection.execute(f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)")
        finally:
            await connection.close()

    async def ensure_running(self) -> None:
        """Start the server if its process is gone."""
        await asyncio.to_thread(self._ensure_running)

    def _known(self) -> Postmaster:
        if self._postmaster is None:
            raise RuntimeError("the embedded server is not entered: use `async with EmbeddedPostgres(...) as server`")
        return self._postmaster

    def _enter(self) -> None:
        self._cluster = cluster = Cluster(self.directory)
        with self._users.changing():
            self._users.join()
            try:
                self._postmaster = cluster.running()
                if self._postmaster is None:
                    cluster.make(fsync=self._fsync)
                    self._postmaster = cluster.start(self._options, self._port)
                else:
                    self._refuse_other_settings(cluster, self._postmaster)
            except BaseException:
                self._users.leave()
                raise
        if self._stop_on_parent_death:
            self._watcher = watch(self.directory)

    def _leave(self) -> None:
        cluster = self._cluster
        assert cluster is not None
        with self._users.changing():
            if self._users.leave():
                cluster.stop()
        self._postmaster = None
        if self._watcher is not None:
            self._watcher.communicate(b"left")

    def _ensure_running(self) -> None:
        cluster = self._cluster
        assert cluster is not None
        with self._users.changing():
            running = cluster.running()
            self._postmaster = running or cluster.start(self._options, self._known().port)

    def _refuse_other_settings(self, cluster: Cluster, running: Postmaster) -> None:
        durable = "fsync=off" not in cluster.started_with()
        if self._fsync and not durable:
            self._refuse("The running server was started without durability (fsync=off)")
        if self._port is not None and self._port != running.port:
            self._refuse(f"The running server listens on port {running.port}, not {self._port}")

    def _refuse(self, message: str) -> None:
        raise EmbeddedPostgresError(
            message,
            kind="settings_differ",
            directory=str(self.directory),
            advice="Ask for the same settings, use another directory, or end the other users first.",
        )

    async def _reach(self) -> None:
        """Connect, and make the database. A server that was joined while it was being killed is started again."""
        for attempt in range(MAX_REACHES):
            try:
                await self._make_database()
            except NOT_THERE_YET:
                if attempt == MAX_REACHES - 1:
                    raise
                await asyncio.sleep(SUPERVISION_INTERVAL_S)
                await asyncio.to_thread(self._ensure_running)
            else:
                return

    async def _make_database(self) -> None:
        connection: asyncpg.Connection = await asyncpg.connect(self.dsn("postgres"))
        try:
            if not await connection.fetchval("SELECT true FROM pg_database WHERE datname = $1", self._database):
                await connection.execute(f"CREATE DATABASE {_quoted(self._database)}")
        except (asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
            pass
        finally:
            await connection.close()

    async def _supervise(self) -> None:
        cluster = self._cluster
        assert cluster is not None
        while True:
            await asyncio.sleep(SUPERVISION_INTERVAL_S)
            if works_in(self._known().pid, cluster.data):
                continue
            _logger.warning("the embedded PostgreSQL in %s is gone; starting it again", self.directory)
            try:
                await self.ensure_running()
            except EmbeddedPostgresError:
                _logger.exception("could not start the embedded PostgreSQL again; trying on")


def watch(directory: Path) -> subprocess.Popen[bytes]:
    """Start the watcher that stops the server of `directory` once this process is gone and nobody else uses it."""
    return subprocess.Popen(
        [sys.executable, "-m", "ductor.journal.embedded.watcher", str(directory), str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
