"""A small HTTP server for `/metrics`, `/health` and `/ready`, on the host's own event loop: no thread, no framework.

It stands around the host (`async with Endpoint(host): async with host:`), so that it answers while the host starts and
drains. It takes GET and HEAD, one request a connection, and nothing that a stranger sends can grow: the head, the
time, the number of connections are bounded. Put it on an address that only your monitoring reaches: it says which runs
are set aside, and why.
"""

import asyncio
import errno
import logging
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import msgspec

from ductor.definitions.errors import DuctorError
from ductor.observability.health import Report, report_of
from ductor.observability.probe import database_problem
from ductor.projections.errors import ProjectionsUnavailableError

if TYPE_CHECKING:
    from ductor.host import Host
    from ductor.observability.metrics import Metrics

MAX_HEAD_BYTES: Final = 8 * 1024
MAX_CONNECTIONS: Final = 32
REQUEST_TIMEOUT_S: Final = 10.0
"""More than all that is looked up for a page takes when nothing answers."""
HEALTH_TIMEOUT_S: Final = 2.0

TEXT_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"
JSON: Final = "application/json"

_log = logging.getLogger(__name__)


class Endpoint:
    """See the module's docstring.

    Attributes:
        port: where it listens, once entered.
    """

    def __init__(
        self,
        host: "Host",
        *,
        metrics: "Metrics | None" = None,
        address: str = "127.0.0.1",
        port: int = 0,
        ports: int = 1,
    ) -> None:
        """Answer for a host.

        Args:
            metrics: what `/metrics` shows; those of the host's observers if they are to count anything.
            address: to listen on.
            port: the first to try; 0 takes one that is free.
            ports: so many from `port` on are tried until one is free: processes of one group have one each.
        """
        self._host, self._metrics, self._address = host, metrics, address
        self._candidates = range(port, port + ports)
        self._server: asyncio.Server | None = None
        self._connections = 0
        self.port = port

    async def __aenter__(self) -> Self:
        """Listen. Raises OSError when the address can't be taken."""
        self._server = await self._listen()
        self.port = self._server.sockets[0].getsockname()[1]
        _log.info("metrics, health and readiness at http://%s:%d", self._address, self.port)
        return self

    async def _listen(self) -> asyncio.Server:
        for port in self._candidates:
            try:
                return await asyncio.start_server(self._serve, self._address, port, limit=MAX_HEAD_BYTES)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or port == self._candidates[-1]:
                    raise
        raise ValueError("no port to try")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._connections += 1
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                writer.write(await self._answer(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
            _log.debug("a request was not answered: %r", error)
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
        if method not in (b"GET", b"HEAD"):
            return _answer(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"only GET and HEAD\n")
        status, kind, body = await self._page(path)
        return _answer(status, kind, body, shows_body=method == b"GET")

    async def _page(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        if path == "/metrics" and self._metrics is not None:
            return HTTPStatus.OK, TEXT_FORMAT, await self._metrics.page(self._host)
        if path in ("/health", "/ready"):
            report = await self.report()
            is_well = report.is_healthy if path == "/health" else report.is_ready
            status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
            return status, JSON, msgspec.json.encode(report) + b"\n"
        return HTTPStatus.NOT_FOUND, "text/plain", b"there are /metrics, /health and /ready\n"

    async def report(self) -> Report:
        """How the host is, within some seconds."""
        host = self._host
        if host.phase != "running":
            return report_of(host.phase, None)
        problem = await database_problem(host)
        try:
            async with asyncio.timeout(HEALTH_TIMEOUT_S):
                health = await host.health()
        except TimeoutError:
            return report_of(host.phase, None, database_problem=problem)
        if problem:
            return report_of(host.phase, health, database_problem=problem)
        return report_of(host.phase, health, stopped_projections=await self._stopped_projections())

    async def _stopped_projections(self) -> list[tuple[str, str]]:
        try:
            async with asyncio.timeout(HEALTH_TIMEOUT_S):
                statuses = await self._host.projections()
        except ProjectionsUnavailableError:  # runs are kept in memory: there are none
            return []
        except (DuctorError, TimeoutError, OSError) as error:
            return [("projections", f"they could not be asked: {error}")]
        return [(one.name, one.error) for one in statuses if one.status == "failed"]


def _answer(status: HTTPStatus, kind: str, body: bytes, *, shows_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (body if shows_body else b"")
