"""A person runs an approval workflow from the command line, end to end."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import ductor
from ductor.definitions.compile import compile_text
from ductor.definitions.expressions import STANDARD_LIBRARY
from tests.ductor.cli.processes import Call, HostProcess

PURCHASE = """
ductor: 1
name: purchase
input: {type: object, required: [item, price]}
steps:
  - ref: sign_off
    type: approval
    approvers: [ada, "group:board"]
    quorum: 2
    title: "${trigger.item} for ${trigger.price}"
    timeout: 2d
    next: {approved: address, rejected: examine, timeout: examine}
  - ref: address
    type: interaction
    ask: Where to?
    to: ada
    schema: {type: object, required: [street], properties: {street: {type: string}}}
    next: delivered
  - {ref: delivered, type: wait, event: parcel.delivered, match: event.payload.item == trigger.item, next: thanks}
  - {ref: thanks, type: wait, signal: thanks}
  - {ref: examine, type: human_loop, join: any, title: Why?, next: refused}
  - {ref: refused, type: transform, end: failed, error: {type: Refused}}
output: {by: "${steps.sign_off.output.by}", street: "${steps.address.output.street}"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "purchase.yaml").write_text(PURCHASE)
    return tmp_path


def started(call: Call, item: str) -> str:
    return call("start", "purchase", "--input", json.dumps({"item": item, "price": 5})).stdout.strip()


def waits_for(call: Call, run: str, step: str) -> dict[str, object]:
    """What `show` says of a step, once the run has come to it."""
    while True:
        shown = json.loads(call("show", run, "-o", "json").stdout)
        if step in shown["waits_for"]:
            found: dict[str, object] = shown["waits_for"][step]
            return found


def test_a_purchase_that_is_approved(call: Call, host: Callable[..., HostProcess]):
    call("db", "migrate")
    host("--definitions", ".").health()
    run = started(call, "chair")
    reason = waits_for(call, run, "sign_off")
    assert reason["kind"] == "approval"
    assert {"since_us", "until_us"} <= reason.keys()
    assert "may vote: ada, group:board" in call("explain", run).stdout
    (entry,) = json.loads(call("inbox", "--person", "ada", "-o", "json").stdout)
    assert (entry["run_id"], entry["item"]["node"], entry["item"]["title"]) == (run, "sign_off", "chair for 5")
    assert call("inbox", "--person", "bo", "-o", "json").stdout == "[]\n"

    stranger = call("approve", run, "sign_off", "--by", "mallory")
    assert (stranger.returncode, "may not vote" in stranger.stderr) == (5, True)
    vote = call("approve", run, "sign_off", "--by", "ada", "--comment", "fine", "-o", "json")
    assert (vote.returncode, json.loads(vote.stdout)["verdict"]) == (0, "accepted")
    assert call("approve", run, "sign_off", "--by", "bo", "--group", "board").returncode == 0

    waits_for(call, run, "address")
    assert "Where to?" in call("inbox").stdout
    misfit = call("reply", run, "address", "--payload", '{"street": 5}')
    assert (misfit.returncode, "street" in misfit.stderr) == (5, True)
    assert call("reply", run, "address", "--payload", '{"street": "Storgata 1"}', "--by", "ada").returncode == 0

    waits_for(call, run, "delivered")
    assert "parcel.delivered" in call("show", run).stdout
    event = ("event", "parcel.delivered", "--payload", '{"item": "chair"}', "--id", "p-1")
    assert [call(*event).returncode, call(*event).returncode] == [0, 5]
    waits_for(call, run, "thanks")
    signal = ("signal", run, "thanks", "--payload", "1", "--request-id", "t-1")
    assert call(*signal).returncode == 0
    watched = call("watch", run, "--from-start", "--timeout", "60s")
    assert watched.returncode == 0
    assert "sign_off: waits for approval of ada, group:board: chair for 5 until" in watched.stdout
    assert call(*signal).returncode == 5
    receipt = json.loads(call("receipt", run, "t-1", "-o", "json").stdout)
    assert (receipt["verdict"], receipt["disposition"]) == ("duplicate", "consumed")
    assert call("receipt", run, "nothing").returncode == 3
    assert "thanks: waits for signal of signal:thanks" in call("history", run).stdout
    assert json.loads(call("show", run, "-o", "json").stdout)["output"] == {"by": "bo", "street": "Storgata 1"}


def test_a_purchase_that_is_rejected_examined_and_begun_anew(call: Call, host: Callable[..., HostProcess]):
    call("db", "migrate")
    host("--definitions", ".").health()
    run = started(call, "yacht")
    waits_for(call, run, "sign_off")
    assert call("reject", run, "sign_off", "--by", "ada", "--comment", "no").returncode == 0
    assert call("reject", run, "sign_off", "--by", "bo", "--group", "board").returncode == 0
    assert call("cancel").returncode == 2
    assert call("pause", run, "--all").returncode == 2

    waits = json.loads(call("show", run, "-o", "json").stdout)["waits_for"]
    assert waits.keys() == {"sign_off"}  # a group's votes are never known to be all
    assert call("pause", run, "--by", "op", "--reason", "lunch", "--request-id", "p-1").returncode == 0
    while "applied" not in call("receipt", run, "p-1").stdout:
        pass
    assert "paused by op: lunch" in call("show", run).stdout
    assert call("pause", run, "--request-id", "p-1").returncode == 5
    resumed = json.loads(call("resume", "--definition", "purchase", "-o", "json").stdout)
    assert resumed["verdict"] == "accepted"
    while "1 asked, done" not in call("receipt", resumed["bulk_id"]).stdout:
        pass
    assert call("receipt", "01890000-0000-7000-8000-000000000000").returncode == 3
    while json.loads(call("show", run, "-o", "json").stdout)["status"] == "paused":
        pass

    assert call("terminate", run, "--by", "op").returncode == 0
    assert call("watch", run, "--timeout", "60s").returncode == 1
    assert call("signal", run, "thanks").returncode == 5
    assert call("redrive", run, "--from", "sign_off", "--request-id", "r-1").returncode == 0
    waits_for(call, run, "sign_off")
    assert call("terminate", "--all", "--by", "op").returncode == 0
    assert call("watch", run, "--timeout", "60s").returncode == 1


def test_a_run_with_functions_of_its_host_is_shown_without_reasons(call: Call, environment: dict[str, str]):
    call("db", "migrate")
    functions = STANDARD_LIBRARY.with_function("twice", lambda value: [value, value], least=1)
    text = 'name: own\nsteps: [{ref: go, type: wait, signal: go}]\noutput: "${twice(trigger)}"\n'

    async def start() -> str:
        definitions = compile_text(text, functions=functions)
        async with ductor.Host(
            definitions=definitions, database=environment["DUCTOR_DATABASE"], functions=functions
        ) as host:
            return (await host.start("own", 1)).run_id

    shown = call("show", asyncio.run(start()))
    assert shown.returncode == 0
    assert "twice" in shown.stderr
    assert "go" in shown.stdout


def test_a_case(call: Call, host: Callable[..., HostProcess], folder: Path):
    (folder / "purchase.yaml").write_text("name: purchase\nsteps: [{ref: look, type: human_loop, title: Look}]\n")
    call("db", "migrate")
    host("--definitions", ".").health()
    run = started(call, "lamp")
    waits_for(call, run, "look")
    assert call("case", run, "look", "--by", "ada").returncode == 5
    assert call("case", run, "look", "--by", "ada", "--assignee", "bo", "--comment", "yours").returncode == 0
    while not json.loads(call("inbox", "--person", "bo", "-o", "json").stdout)[0]["item"]["people"]:
        pass
    assert call("case", run, "look", "--by", "bo", "--status", "resolved").returncode == 0
    assert call("watch", run, "--timeout", "60s").returncode == 0
