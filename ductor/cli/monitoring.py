"""Where `ductor host` and `ductor worker` answer for their metrics and health, and tell their traces."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from cyclopts import Parameter

from ductor.cli.arguments import ArgumentError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ductor.observability.endpoint import Endpoint, Page, Serving
    from ductor.observability.metrics import Metrics
    from ductor.observability.tracing import Tracing
    from ductor.observability.worker_metrics import WorkerMetrics

MAX_PORT: Final = 65_535

T = TypeVar("T", bound="Serving")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MonitoringOptions:
    """Whether, and where, a process answers over HTTP, and where its traces go."""

    metrics_port: Annotated[
        int | None,
        Parameter(
            name="--metrics-port",
            env_var="DUCTOR_METRICS_PORT",
            help="Answer /metrics, /health and /ready over HTTP. Several processes have a port each, from this one on.",
        ),
    ] = None
    metrics_address: Annotated[
        str,
        Parameter(
            name="--metrics-address",
            env_var="DUCTOR_METRICS_ADDRESS",
            help="Where to listen for that: an address that only your monitoring reaches.",
        ),
    ] = "127.0.0.1"
    traces: Annotated[
        str | None,
        Parameter(
            name="--traces",
            env_var="DUCTOR_TRACES",
            help="Tell spans to this exporter of OpenTelemetry, as `otlp`; OTEL_... variables say where it is.",
        ),
    ] = None

    def tracing(self) -> "Tracing | None":
        """What tells spans; None where nobody asks. Raises ArgumentError where the library is missing."""
        if not self.traces:
            return None
        try:
            from ductor.observability.exporting import exporting_tracing
        except ModuleNotFoundError as error:
            raise _missing_library("--traces", "otel") from error
        return exporting_tracing(self.traces)

    def host_metrics(self) -> "Metrics | None":
        """What counts for a host; None where nobody asks. Raises ArgumentError where the library is missing."""
        if self.metrics_port is None:
            return None
        try:
            from ductor.observability.metrics import Metrics
        except ModuleNotFoundError as error:
            raise _missing_library("--metrics-port", "metrics") from error
        return Metrics(_registry())

    def worker_metrics(self) -> "WorkerMetrics | None":
        """What counts for a worker; None where nobody asks. Raises ArgumentError where the library is missing."""
        if self.metrics_port is None:
            return None
        try:
            from ductor.observability.worker_metrics import WorkerMetrics
        except ModuleNotFoundError as error:
            raise _missing_library("--metrics-port", "metrics") from error
        return WorkerMetrics(_registry())

    def around(
        self, serving: T, metrics: "Page[T] | None", tracing: "Tracing | None", processes: int = 1
    ) -> AbstractAsyncContextManager[object]:
        """What stands around one of so many processes: the endpoint, and the end of traces, where somebody asks."""
        endpoint = self.endpoint(serving, metrics, processes) or nullcontext()
        return endpoint if tracing is None else _telling_all(tracing, endpoint)

    def endpoint(self, serving: T, metrics: "Page[T] | None", processes: int = 1) -> "Endpoint[T] | None":
        """What answers for one of so many processes; None where nobody asks."""
        from ductor.observability.endpoint import Endpoint

        if self.metrics_port is None:
            return None
        last = MAX_PORT + 1 - processes
        if not 0 <= self.metrics_port <= last:
            raise ArgumentError("--metrics-port", f"from 0 to {last}, found {self.metrics_port}")
        return Endpoint(serving, metrics=metrics, address=self.metrics_address, port=self.metrics_port, ports=processes)


def _registry() -> "CollectorRegistry":
    """One that tells of the process, too."""
    from importlib.metadata import version
    from platform import python_version

    from prometheus_client import CollectorRegistry, Gauge, ProcessCollector

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    build = Gauge("ductor_build_info", "What runs here.", ("version", "python"), registry=registry)
    build.labels(version("ductor-engine"), python_version()).set(1)
    return registry


def _missing_library(option: str, extra: str) -> ArgumentError:
    return ArgumentError(option, f"needs `pip install 'ductor-engine[{extra}]'`")


@asynccontextmanager
async def _telling_all(tracing: "Tracing", inner: AbstractAsyncContextManager[object]) -> AsyncIterator[None]:
    """Within the inner one; afterwards spans that were not told yet are."""
    try:
        async with inner:
            yield
    finally:
        await asyncio.to_thread(tracing.close)
