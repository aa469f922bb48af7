"""Structured logs: one JSON object a line, with what the line is about as fields.

Every line has `time`, `level`, `logger`, `message` and, of a host or worker, `host`. Lines about runs have `run_id`,
and as far as it is known where they are written `tenant`, `definition`, `step`, `task`, `attempt`, `token`. A handler
that logs with `context.logger` has all of them, and `trace_id` and `span_id` if its run is traced. Fields that a
service gives by `extra` stand beside them.

`RunLog` writes a line for each start and end of a run and each attempt that fails, once, after it is committed.
"""

import logging
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from ductor.actors.observing import Observer
from ductor.journal.events import AnyEvent, AttemptFinished, RunContinued, RunEnded
from ductor.journal.state import RunState

LogFormat = Literal["text", "json"]
TEXT_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

MAX_FIELD_CHARS: Final = 8_192
"""Of a message and of each field that is text; what is longer is cut."""
MAX_STACK_CHARS: Final = 32_768
"""Of an exception's stack, its end."""
MAX_FIELDS: Final = 64

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_log = logging.getLogger("ductor.run")


class JsonFormatter(logging.Formatter):
    """Formats records as JSON objects; never fails, whatever a field holds.

    Attributes:
        fields: what every line of the process has.
    """

    def __init__(self, **fields: str) -> None:
        super().__init__()
        self.fields = dict(fields)

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record)[:MAX_FIELD_CHARS],
            **self.fields,
        }
        for name, value in record.__dict__.items():
            if name not in _STANDARD and name not in line and len(line) < MAX_FIELDS:
                line[name] = value[:MAX_FIELD_CHARS] if isinstance(value, str) else value
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error_type"] = type(error).__name__
            line["stack"] = "".join(traceback.format_exception(error))[-MAX_STACK_CHARS:]
        return _encoded(line)


def configure_logs(format: LogFormat, level: int = logging.INFO) -> JsonFormatter | None:  # noqa: A002 - its name
    """Have the root logger write so to standard error; the formatter of `json`, to name the process with."""
    if format == "text":
        logging.basicConfig(level=level, format=TEXT_FORMAT)
        return None
    formatter = JsonFormatter()
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler])
    return formatter


class RunLog(Observer):
    """Lines about what becomes of runs, to the logger `ductor.run`."""

    def committed(self, state: RunState, events: Sequence[AnyEvent], *, has_begun: bool) -> None:
        if has_begun:
            _log.info("run %s of %s starts", state.run_id, state.definition, extra=_fields(state))
        for event in events:
            tell = _TELLING.get(type(event))
            if tell is not None:
                tell(state, event)


def _attempt_finished(state: RunState, event: AnyEvent) -> None:
    assert isinstance(event, AttemptFinished)
    if event.error is None:
        return
    error = event.error
    _log.warning(
        "attempt %d of step %s of run %s failed: %s: %s",
        event.generation,
        event.node,
        state.run_id,
        error.type,
        error.message,
        extra={
            **_fields(state),
            "step": event.node,
            "generation": event.generation,
            "worker": event.worker,
            "error_type": error.type,
        },
    )


def _run_ended(state: RunState, _event: AnyEvent) -> None:
    duration_ms = (state.at_us - state.started_at_us) // 1_000
    extra = {**_fields(state), "status": state.status, "duration_ms": duration_ms}
    if state.error is not None:
        extra["error_type"] = state.error.type
    _log.info("run %s of %s is %s", state.run_id, state.definition, state.status, extra=extra)


_TELLING: Final[dict[type, Callable[[RunState, AnyEvent], None]]] = {
    AttemptFinished: _attempt_finished,
    RunEnded: _run_ended,
    RunContinued: _run_ended,
}


def _fields(state: RunState) -> dict[str, object]:
    return {
        "run_id": state.run_id,
        "tenant": state.tenant,
        "definition": state.definition,
        "version": state.version,
    }


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - a line with a wrong number of arguments is a line all the same
        return f"{record.msg!r} (arguments do not fit: {error})"


def _encoded(line: dict[str, object]) -> str:
    try:
        return msgspec.json.encode(line, enc_hook=repr).decode()
    except Exception:  # noqa: BLE001 - values may be anything: numbers out of range, keys that are no text
        return msgspec.json.encode({name: _text(value) for name, value in line.items()}).decode()


def _text(value: object) -> str:
    try:
        return str(value).encode("utf-8", "backslashreplace").decode()[:MAX_FIELD_CHARS]
    except Exception as error:  # noqa: BLE001 - its own text may raise
        return f"<{type(value).__name__} whose text raised {type(error).__name__}>"
