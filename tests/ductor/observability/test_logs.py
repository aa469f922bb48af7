"""JSON lines: every line can be read, whatever is in it, and those about runs say which."""

import json
import logging
from typing import Any

import pytest

import ductor
from ductor.definitions.build import task, workflow
from ductor.journal.clock import SystemClock
from ductor.journal.memory import MemoryStore
from ductor.observability.logs import MAX_FIELD_CHARS, MAX_FIELDS, MAX_STACK_CHARS, JsonFormatter, RunLog

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
async def store():
    made = MemoryStore(SystemClock())
    await made.open()
    yield made
    await made.close()


class Lines(logging.Handler):
    """What a logger wrote, read back."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter(host="h-1"))
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        assert "\n" not in text
        self.lines.append(json.loads(text))


@pytest.fixture
def lines():
    handler, logger = Lines(), logging.getLogger("ductor")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(level)


@ductor.task("pay")
async def pay(context: ductor.TaskContext) -> None:
    context.logger.info("paying %d", 7, extra={"customer": "c-1"})
    raise ductor.NonRetryable("no money", type="Declined")


async def test_lines_about_a_run_say_which_and_where(store, lines):
    steps = workflow("paying", task("a", "pay"))
    async with ductor.Host(tasks=[pay], definitions=steps, database=store, tenant="acme", observers=[RunLog()]) as host:
        run = await host.start("paying", traceparent=CALLER)
        with pytest.raises(ductor.RunFailedError):
            await run.result(timeout=30)
        host.engine.engine.set_aside(run.run_id, ValueError("broken"))
    by_message = {line["message"].partition(" ")[0]: line for line in lines}
    paying, failed = by_message["paying"], by_message["attempt"]
    assert {"host": "h-1", "logger": "ductor.task", "level": "info", "customer": "c-1"}.items() <= paying.items()
    whole = {"run_id": run.run_id, "tenant": "acme", "definition": "paying", "step": "a"}
    assert whole.items() <= paying.items()
    assert {
        "task": "pay",
        "attempt": 1,
        "token": f"{run.run_id}/a/1",
        "trace_id": CALLER[3:35],
    }.items() <= paying.items()
    assert (whole | {"generation": 1, "error_type": "Declined", "level": "warning"}).items() <= failed.items()
    told = [line for line in lines if line["logger"] == "ductor.run"]
    assert [line["message"].rpartition(" ")[2] for line in told] == ["starts", "money", "failed"]
    assert {"status": "failed", "error_type": "Declined", "tenant": "acme"}.items() <= told[-1].items()
    (aside,) = (line for line in lines if "set aside" in line["message"])
    assert aside["run_id"] == run.run_id


class Awkward:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "value",
    [Awkward(), object(), float("nan"), 10**400, b"\xff", {1: {2}}, "\ud800", {"a": Awkward()}, [object()]],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_field_holds_is_a_line(value):
    record = logging.makeLogRecord({"msg": "hello %s", "args": ("you",), "levelname": "INFO", "odd": value})
    line = json.loads(JsonFormatter().format(record))
    assert line["message"] == "hello you"
    assert "odd" in line


def test_what_is_too_long_is_cut_and_a_wrong_number_of_arguments_is_a_line():
    try:
        raise ValueError("x" * 100_000)
    except ValueError as error:
        caught = (type(error), error, error.__traceback__)
    fields = {f"field_{number}": number for number in range(2 * MAX_FIELDS)}
    record = logging.makeLogRecord(
        {"msg": "%d %d" + "y" * 100_000, "args": (1,), "exc_info": caught, "long": "z" * 100_000, **fields}
    )
    line = json.loads(JsonFormatter().format(record))
    assert "arguments do not fit" in line["message"] or len(line["message"]) == MAX_FIELD_CHARS
    assert len(line["long"]) == MAX_FIELD_CHARS
    assert len(line["stack"]) == MAX_STACK_CHARS
    assert line["error_type"] == "ValueError"
    assert len(line) <= MAX_FIELDS + 2


def test_fields_of_the_line_itself_are_not_replaced():
    record = logging.makeLogRecord({"msg": "m", "level": "mine", "host": "mine", "time": "mine"})
    line = json.loads(JsonFormatter(host="h").format(record))
    assert "mine" not in line.values()
