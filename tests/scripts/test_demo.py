"""The demonstration keeps its promises, and would say so if it did not."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ductor import HistoryRow
from ductor.journal.events import AnyEvent, AttemptDispatched, AttemptFinished, NodeSettled
from scripts.demonstration import folder
from scripts.demonstration.account import account, calls_after
from scripts.demonstration.ledger import Entry, Event, Ledger
from scripts.demonstration.leftovers import still_running

CHECKOUT = Path(__file__).resolve().parents[2]
PACE_S = "0.2"


@pytest.fixture
def inspected(tmp_path: Path) -> Path:
    folder = tmp_path / "inspected"
    folder.mkdir()
    return folder


def demo(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(CHECKOUT / "scripts" / "demo"), str(folder), "--pace", PACE_S],
        env={**os.environ, "DUCTOR_PYTHON": sys.executable, "TMPDIR": str(folder.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_a_killed_run_is_finished_and_every_promise_kept(inspected: Path):
    (inspected / "a.txt").write_text("one\ntwo\n")
    (inspected / "b.txt").write_text("one\ntwo\n")
    (inspected / "lost").symlink_to("nowhere")

    done = demo(inspected)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "with SIGKILL" in done.stdout
    assert "Nothing is left running." in done.stdout
    report = Path(re.search(r"The report lies in (\S+)", done.stdout)[1]).read_text()  # type: ignore[index]
    assert "Grade: **needs work**" in report
    assert "* **error**: 1 links lead nowhere" in report
    assert "* a.txt, b.txt" in report
    ledger = Ledger(Path(re.search(r"The ledger lies in (\S+)", done.stdout)[1])).read()  # type: ignore[index]
    calls = Counter(entry.step for entry in ledger if entry.event is Event.BEGAN)
    assert calls == {
        "inventory": 1, "count_lines": 2, "fingerprint": 2, "links": 1, "ages": 1, "write_report": 1, "sign_off": 1
    }  # fmt: skip
    cut_off, repeated = (entry for entry in ledger if entry.step == "fingerprint" and entry.event is Event.BEGAN)
    assert cut_off.key == repeated.key
    assert cut_off.pid != repeated.pid


def test_a_folder_without_files_fails_the_run_and_the_demonstration_says_why(inspected: Path):
    done = demo(inspected)
    assert done.returncode == 1
    assert "EmptyFolder" in done.stdout
    assert not any(inspected.parent.glob("ductor-demo-*/postgres"))


@pytest.fixture
def heeding_interrupts() -> Iterator[None]:
    """What a shell starts in its background ignores SIGINT, and so would all that a test starts there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeding_interrupts")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demonstration_leaves_nothing(tmp_path: Path, number: signal.Signals):
    (tmp_path / "a.txt").write_text("one\n")
    made = tmp_path / "made"
    made.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "scripts.demonstration", str(tmp_path), "--pace", PACE_S],
        cwd=CHECKOUT,
        env={**os.environ, "TMPDIR": str(made), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    shown = ""
    for line in process.stdout:
        shown += line
        if "fingerprint  running" in line:
            break
    pids = [int(pid) for pid in re.findall(r"(?:PostgreSQL|Host) (\d+)", shown)]
    process.send_signal(number)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130, shown + rest
    assert "Interrupted" in rest
    assert len(pids) == 2
    assert still_running(pids) == []
    assert not any(made.iterdir())


def test_what_is_no_folder_is_refused(inspected: Path):
    done = demo(inspected / "missing")
    assert done.returncode == 2
    assert "is no folder" in done.stderr


# --- the account ------------------------------------------------------------------------------------------------------

RUN_ID = "01900000-0000-7000-8000-000000000000"
KEY = f"{RUN_ID}/job/1"


def history(*events: AnyEvent) -> list[HistoryRow]:
    return [HistoryRow(run_id=RUN_ID, version=1, at_us=1, hash="", events=events)]


def ledger(*events: tuple[Event, int]) -> list[Entry]:
    return [Entry("job", KEY, event, pid) for event, pid in events]


DISPATCHED = AttemptDispatched(node="job", generation=1, task="job")
FINISHED = AttemptFinished(node="job", generation=1, outcome="succeeded")
SETTLED = NodeSettled(node="job", status="succeeded", outcome="success")


def test_a_call_cut_off_by_the_kill_and_repeated_is_as_promised():
    (step,) = account(
        RUN_ID,
        history(DISPATCHED, FINISHED, SETTLED),
        ledger((Event.BEGAN, 1), (Event.BEGAN, 2), (Event.ENDED, 2)),
    )
    assert (step.attempts, step.results, step.calls, step.interrupted, step.broken) == (1, 1, 2, 1, [])


@pytest.mark.parametrize(
    ("events", "entries", "words"),
    [
        ((DISPATCHED, SETTLED), ledger((Event.BEGAN, 1), (Event.ENDED, 1)), "0 results"),
        ((DISPATCHED, FINISHED, FINISHED, SETTLED), ledger((Event.BEGAN, 1), (Event.ENDED, 1)), "2 results"),
        ((DISPATCHED, FINISHED, SETTLED), ledger(), "never called"),
        (
            (DISPATCHED, FINISHED, SETTLED),
            ledger((Event.BEGAN, 1), (Event.ENDED, 1), (Event.BEGAN, 2), (Event.ENDED, 2)),
            "came to an end 2 times",
        ),
        ((DISPATCHED, FINISHED, SETTLED, SETTLED), ledger((Event.BEGAN, 1), (Event.ENDED, 1)), "settled 2 times"),
        ((), ledger((Event.BEGAN, 1), (Event.ENDED, 1)), "does not know"),
    ],
)
def test_each_broken_promise_is_named(events: tuple[AnyEvent, ...], entries: list[Entry], words: str):
    (step,) = account(RUN_ID, history(*events), entries)
    assert any(words in broken for broken in step.broken), step.broken


def test_work_that_ended_before_the_kill_and_was_called_again_is_named():
    assert calls_after(ledger((Event.BEGAN, 1), (Event.ENDED, 1), (Event.BEGAN, 2)), 1) == ["job"]
    assert calls_after(ledger((Event.BEGAN, 1), (Event.BEGAN, 2)), 1) == []


def test_a_process_that_runs_on_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("scripts.demonstration.leftovers.GONE_WITHIN_S", 0.0)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert still_running((os.getpid(), ended.pid)) == [os.getpid()]


# --- what the handlers do ---------------------------------------------------------------------------------------------


def test_an_inventory_passes_over_hidden_folders_and_links_and_says_when_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.py").write_text("12345")
    (tmp_path / "a.py").write_text("123")
    (tmp_path / "link").symlink_to("a.py")

    found = folder.inventory(str(tmp_path))
    assert found["files"] == [{"path": "a.py", "bytes": 3}, {"path": "sub/b.py", "bytes": 5}]
    assert (found["count"], found["bytes"], found["is_cut"]) == (2, 8, False)
    assert found["largest"] == {"path": "sub/b.py", "bytes": 5}

    monkeypatch.setattr(folder, "MAX_FILES", 1)
    found = folder.inventory(str(tmp_path))
    assert (found["count"], found["is_cut"]) == (1, True)
