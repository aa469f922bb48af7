"""A small HTTP server for `/metrics`, `/health` and `/ready`, on the event loop of a host or worker: no thread, no
framework.

It stands around the host (`async with Endpoint(host): async with host:`), so that it answers while the host starts and
drains. It takes GET and HEAD, one request a connection, and nothing that a stranger sends can grow: the head, the
time, the number of connections are bounded. Put it on an address that only your monitoring reaches: it says which runs
are set aside, and why.
"""

import asyncio
import errno
import logging
import os
from http import HTTPStatus
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar

import msgspec

from ductor.errors import PortUnavailableError
from ductor.observability.health import Report

MAX_HEAD_BYTES: Final = 8 * 1024
MAX_CONNECTIONS: Final = 32
REQUEST_TIMEOUT_S: Final = 10.0
"""More than all that is looked up for a page takes when nothing answers."""

TEXT_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"
JSON: Final = "application/json"

_log = logging.getLogger(__name__)


class Serving(Protocol):
    """A host or a worker."""

    async def condition(self) -> Report:
        """How it is, within some seconds."""
        ...


T = TypeVar("T", bound=Serving)
T_contra = TypeVar("T_contra", bound=Serving, contravariant=True)


class Page(Protocol[T_contra]):
    """What has something to show of a host, or of a worker: its metrics."""

    async def page(self, serving: T_contra, /) -> bytes:
        """What was counted, and what is looked up now, in Prometheus' text format."""
        ...


class Endpoint(Generic[T]):
    """See the module's docstring.

    Attributes:
        port: where it listens, once entered.
    """

    def __init__(
        self,
        serving: T,
        *,
        metrics: Page[T] | None = None,
        address: str = "127.0.0.1",
        port: int = 0,
        ports: int = 1,
    ) -> None:
        """Answer for a host or a worker.

        Args:
            metrics: what `/metrics` shows: a `Metrics` for a host, a `WorkerMetrics` for a worker; among the observers,
                so that it has anything to show.
            address: to listen on.
            port: the first to try; 0 takes one that is free.
            ports: so many from `port` on are tried until one is free: processes of one group have one each.
        """
        self._serving, self._metrics, self._address = serving, metrics, address
        self._candidates = range(port, port + ports)
        self._server: asyncio.Server | None = None
        self._connections = 0
        self.port = port

    async def __aenter__(self) -> Self:
        """Listen. Raises PortUnavailableError when the address can't be taken."""
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
                    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
                    raise PortUnavailableError(self._address, port, reason) from error
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
            return HTTPStatus.OK, TEXT_FORMAT, await self._metrics.page(self._serving)
        if path in ("/health", "/ready"):
            report = await self.report()
            is_well = report.is_healthy if path == "/health" else report.is_ready
            status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
            return status, JSON, msgspec.json.encode(report) + b"\n"
        return HTTPStatus.NOT_FOUND, "text/plain", b"there are /metrics, /health and /ready\n"

    async def report(self) -> Report:
        """How the host or worker is, within some seconds."""
        return await self._serving.condition()


def _answer(status: HTTPStatus, kind: str, body: bytes, *, shows_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (body if shows_body else b"")
