"""Traces that go where the environment says, for processes that are started from the command line.

The exporter is one that is installed, by the name under which OpenTelemetry's packages register it: `otlp` of
`opentelemetry-exporter-otlp`, `otlp_proto_http`, `console`. It reads its own settings (`OTEL_EXPORTER_OTLP_ENDPOINT`
and the like), as the SDK does: `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_SCHEDULE_DELAY`.
"""

from importlib.metadata import entry_points
from typing import Final

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from ductor.actors.errors import InvalidSettingError
from ductor.observability.tracing import Tracing

EXPORTERS: Final = "opentelemetry_traces_exporter"
"""Where packages of OpenTelemetry name their exporters."""


def exporting_tracing(exporter: str) -> Tracing:
    """Tell spans to this exporter, in batches, from a thread of its own.

    Raises InvalidSettingError where there is no such exporter, or it can't be made.
    """
    installed = {one.name: one for one in entry_points(group=EXPORTERS)}
    if exporter not in installed:
        names = ", ".join(sorted(installed)) or "none"
        reason = f"{exporter!r} is not installed ({names}); `pip install opentelemetry-exporter-otlp` brings `otlp`"
        raise InvalidSettingError("the exporter of traces", reason)
    try:
        made = installed[exporter].load()()
    except Exception as error:
        raise InvalidSettingError("the exporter of traces", f"{exporter!r} can't be made: {error}") from error
    assert isinstance(made, SpanExporter)
    sampler = TracerProvider(shutdown_on_exit=False).sampler  # what the environment says
    return Tracing(BatchSpanProcessor(made), sampler=sampler)
