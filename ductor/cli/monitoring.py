"""Where `ductor host` and `ductor worker` answer for their metrics and health."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from cyclopts import Parameter

from ductor.cli.arguments import ArgumentError

if TYPE_CHECKING:
    from ductor.observability.endpoint import Endpoint, Page, Serving
    from ductor.observability.metrics import Metrics
    from ductor.observability.worker_metrics import WorkerMetrics

MAX_PORT: Final = 65_535

T = TypeVar("T", bound="Serving")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MonitoringOptions:
    """Whether, and where, a process answers over HTTP."""

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

    def host_metrics(self) -> "Metrics | None":
        """What counts for a host; None where nobody asks. Raises ArgumentError where the library is missing."""
        if self.metrics_port is None:
            return None
        try:
            from ductor.observability.metrics import Metrics
        except ModuleNotFoundError as error:
            raise _missing_library() from error
        return Metrics()

    def worker_metrics(self) -> "WorkerMetrics | None":
        """What counts for a worker; None where nobody asks. Raises ArgumentError where the library is missing."""
        if self.metrics_port is None:
            return None
        try:
            from ductor.observability.worker_metrics import WorkerMetrics
        except ModuleNotFoundError as error:
            raise _missing_library() from error
        return WorkerMetrics()

    def endpoint(self, serving: T, metrics: "Page[T] | None", processes: int = 1) -> "Endpoint[T] | None":
        """What answers for one of so many processes; None where nobody asks."""
        from ductor.observability.endpoint import Endpoint

        if self.metrics_port is None:
            return None
        last = MAX_PORT + 1 - processes
        if not 0 <= self.metrics_port <= last:
            raise ArgumentError("--metrics-port", f"from 0 to {last}, found {self.metrics_port}")
        return Endpoint(serving, metrics=metrics, address=self.metrics_address, port=self.metrics_port, ports=processes)


def _missing_library() -> ArgumentError:
    return ArgumentError("--metrics-port", "needs `pip install 'ductor-engine[metrics]'`")
