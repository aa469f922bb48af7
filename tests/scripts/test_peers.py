"""The comparison with other systems: what it asks of whom, how it judges, and the engine's own side, done in small."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.benchmarks.peers import environments
from scripts.benchmarks.peers.__main__ import Report, as_markdown, main, read_options
from scripts.benchmarks.peers.comparison import (
    Outcome,
    durability_table,
    group_tables,
    losses,
    omissions,
    summary_table,
)
from scripts.benchmarks.peers.environments import Installed, NotInstalledError, install
from scripts.benchmarks.peers.measure import Sample, SideResult, Target, command, figures_of, measure
from scripts.benchmarks.peers.noise import Usage, usage
from scripts.benchmarks.peers.plan import ROUNDS, WORKLOADS, Entry, plan
from scripts.benchmarks.peers.sides import driver
from scripts.benchmarks.peers.sides.ductor_side import open_side
from scripts.benchmarks.peers.sides.processes import NotReadyError, memory_bytes, running, stat_fields, trees
from scripts.benchmarks.peers.systems import OURS, SYSTEMS, System
from tests.postgres_fixtures import Database

CHECKOUT = Path(__file__).resolve().parents[2]
ALL_SYSTEMS, ALL_WORKLOADS = frozenset(SYSTEMS), frozenset(WORKLOADS)
HERE = Installed(python=sys.executable, versions=())


def entry(system: str, variant: str = "default", workload: str = "W2a", in_flight: int = 1) -> Entry:
    return Entry(workload=workload, system=system, variant=variant, runs=5, in_flight=in_flight, rounds=2)


def outcome(of: Entry, *values: float) -> Outcome:
    figure = WORKLOADS[of.workload].figure
    return Outcome(entry=of, samples=[Sample(figures={figure: value}, others_cores=0.5) for value in values])


# ---- the command line and the plan --------------------------------------------


def test_the_command_line_has_a_cache_and_stays_within_its_time():
    options = read_options(["--cache", "there"])
    assert options.cache == Path("there").absolute()
    assert (options.rounds, options.only, options.workloads) == (ROUNDS, list(SYSTEMS), list(WORKLOADS))
    assert options.minutes < 25
    quick = read_options(["--cache", "there", "--quick", "--only", "ductor,dbos", "--workloads", "W1,W4"])
    assert (quick.rounds, quick.only, quick.workloads) == (1, ["ductor", "dbos"], ["W1", "W4"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--cache"),
        (["--cache", "x", "--only", "ductor,nobody"], "unknown nobody; there are: ductor, dbos"),
        (["--cache", "x", "--workloads", "W9"], "unknown W9; there are: W1, W2a"),
        (["--cache", "x", "--rounds", "0"], "must be positive"),
        (["--cache", "x", "--minutes", "0"], "must be positive"),
    ],
)
def test_mistakes_of_the_command_line_are_told(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exited:
        read_options(arguments)
    assert exited.value.code == 2
    assert told in capsys.readouterr().err


def test_the_entry_script_hands_over():
    done = subprocess.run(
        ["scripts/bench", "--peers", "--help"],
        cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=100,
        env={**os.environ, "DUCTOR_PYTHON": sys.executable},
    )  # fmt: skip
    assert "scripts/bench --peers" in done.stdout


def test_every_system_is_asked_for_all_that_it_offers():
    entries = plan(ALL_SYSTEMS, ALL_WORKLOADS, ROUNDS, is_quick=False)
    asked = {(one.system, one.workload) for one in entries}
    offered = {
        (name, workload)
        for name, system in SYSTEMS.items()
        for workload in WORKLOADS
        if workload not in system.not_offered
    }
    assert asked == offered
    assert len(set(entries)) == len(entries)
    assert {one.in_flight for one in entries if one.workload == "W1" and one.system == OURS} == {16, 64, 512}
    assert all(one.runs >= one.in_flight for one in entries)
    assert {one.rounds for one in entries} == {1, ROUNDS}


def test_the_quick_plan_is_smaller_and_keeps_the_load():
    full, quick = (plan(ALL_SYSTEMS, ALL_WORKLOADS, 1, is_quick=is_quick) for is_quick in (False, True))
    assert [(one.group, one.system, one.variant) for one in quick] == [
        (one.group, one.system, one.variant) for one in full
    ]
    assert sum(one.runs for one in quick) < sum(one.runs for one in full) / 3
    assert all(one.runs >= one.in_flight for one in quick)


def test_each_system_has_a_side():
    for name in SYSTEMS:
        assert (Path(driver.__file__).parent / f"{name}_side.py").is_file()


# ---- what is made of the samples ----------------------------------------------


def test_ratios_say_how_many_times_better_the_engine_is():
    outcomes = [
        outcome(entry(OURS, workload="W1", in_flight=64), 1_000.0, 900.0, 5_000.0),
        outcome(entry("dbos", workload="W1", in_flight=64), 200.0),
        outcome(entry("restate", workload="W1", in_flight=64), 500.0),
        outcome(entry("pgqueuer", workload="W1", in_flight=64), 2_000.0),
        outcome(entry(OURS), 2.0),
        outcome(entry("dbos"), 8.0),
        outcome(entry("restate"), 1.0),
    ]
    rows = summary_table(outcomes).as_json()["rows"]
    assert rows == [
        {
            "workload": "W1, 64 in flight",
            "figure": "steps_per_s",
            "ductor": 1_000.0,
            "best_peer": "Restate",
            "its_figure": 500.0,
            "times_better": 2.0,
        },
        {
            "workload": "W2a",
            "figure": "p50_ms",
            "ductor": 2.0,
            "best_peer": "Restate",
            "its_figure": 1.0,
            "times_better": 0.5,
        },
    ]
    assert losses(outcomes) == [
        "W1, 64 in flight: PgQueuer is 2.00 times better",
        "W2a: Restate is 2.00 times better",
    ]


def test_loads_are_compared_apart_and_show_their_spread():
    outcomes = [
        outcome(entry(OURS, workload="W1", in_flight=16), 100.0, 300.0),
        outcome(entry(OURS, "uvloop", workload="W1", in_flight=16), 400.0),
        outcome(entry(OURS, workload="W1", in_flight=64), 900.0),
    ]
    first, second = group_tables(outcomes)
    assert [row[:5] for row in first.rows] == [
        ("ductor", 200.0, 1.0, 100.0, 300.0),
        ("ductor, uvloop", 400.0, 0.5, 400.0, 400.0),
    ]
    assert [row[0] for row in second.rows] == ["ductor"]


def test_what_has_no_figures_is_named_with_its_reason():
    failed = Outcome(entry=entry("dbos"), samples=[Sample(figures={"p50_ms": 1.0}), Sample(error="it broke")])
    unfinished = outcome(entry("restate"), 1.0)
    lines = omissions([failed, unfinished], {"temporal": "pip failed"}, ["absurd"])
    assert "Temporal (development server) could not be installed: pip failed" in lines
    assert "W2a, DBOS Transact: 1 of 2 rounds failed: it broke" in lines
    assert "W2a, Restate: 1 of 2 rounds not measured: the time was over" in lines
    assert any(line.startswith("W3: Absurd has none") for line in lines)
    (table,) = group_tables([outcome(entry(OURS), 1.0), Outcome(entry=entry("absurd"), samples=[Sample(error="no")])])
    assert table.rows[1][:5] == ("Absurd", None, None, None, None)


def test_the_report_as_markdown():
    outcomes = [outcome(entry(OURS), 2.0), outcome(entry("restate"), 6.0)]
    tables = [*group_tables(outcomes), durability_table([OURS, "celery"], {"celery": ("celery 5.4",)})]
    text = as_markdown(Report(environment={"machine": "2 cores"}, tables=tables, losses=[], omissions=["nobody: why"]))
    lines = text.splitlines()
    assert lines[0] == "* machine: 2 cores"
    assert lines.count("| --- | ---: | ---: | ---: | ---: | ---: | ---: |") == 1
    assert "| Restate | 6.00 | 3.00 | 6.00 | 6.00 | 1 | 0.50 |" in lines
    assert "| Celery on Redis | queue | celery 5.4 | none: Redis writes snapshots now and then |" in lines
    assert lines[-1] == "* nobody: why"


def test_figures_of_a_side():
    figures = figures_of(
        SideResult(
            seconds=2.0,
            runs=10,
            steps=100,
            latencies_s=[0.003, 0.001, 0.002],
            more={"parks_per_s": 7.0, "bytes_each_in_program": 1_500.0, "bytes_each_in_server": 500.0,
                  "bytes_each_in_postgresql": 4_000.0},
        )
    )  # fmt: skip
    assert figures == {
        "seconds": 2.0, "runs_per_s": 5.0, "steps_per_s": 50.0, "p50_ms": 2.0, "p99_ms": 3.0, "parks_per_s": 7.0,
        "kb_each_in_postgresql": 4.0, "kb_each": 2.0,
    }  # fmt: skip


# ---- installing, processes ----------------------------------------------------


def test_a_system_that_cannot_be_installed_says_why(tmp_path: Path):
    nothing = System(name="x", title="X", kind="queue", durability="", packages=(str(tmp_path / "no-such-package"),))
    with pytest.raises(NotInstalledError, match=r"pip.* failed: "):
        install(nothing, tmp_path / "cache")
    assert not (tmp_path / "cache" / "x" / "installed.txt").exists()


def test_what_is_installed_is_not_installed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[list[str]] = []

    def run(arguments: list[str]) -> str:
        asked.append(arguments)
        return "A.Thing==1.5\nother==2"

    monkeypatch.setattr(environments, "_run", run)
    system = System(
        name="x", title="X", kind="queue", durability="", packages=("a.thing[extra]>=1",), npm_package="@s/y@3"
    )
    (tmp_path / "x").mkdir()
    assert install(system, tmp_path).versions == ("A.Thing 1.5", "s/y 3")
    assert [arguments[0] for arguments in asked].count("npm") == 1
    asked.clear()
    install(system, tmp_path)
    assert ["list" in arguments for arguments in asked] == [True]


async def test_a_server_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path):
    async def never() -> bool:
        return False

    words = [sys.executable, "-c", "print('no room'); raise SystemExit(3)"]
    with pytest.raises(NotReadyError, match="no room"):
        async with running(words, tmp_path / "log", never):
            pass


async def test_a_server_lives_as_long_as_its_block_and_its_memory_is_seen(tmp_path: Path):
    log = tmp_path / "log"

    async def says_that_it_is_up() -> bool:
        return "up" in log.read_text(encoding="utf-8")

    code = "import signal; text = 'x' * 20_000_000; print('up', flush=True); signal.pause()"
    async with running([sys.executable, "-c", code], log, says_that_it_is_up) as pid:
        assert pid in trees([os.getpid()])
        assert memory_bytes([pid]) > 20_000_000
    assert pid not in trees([os.getpid()])
    assert memory_bytes([pid]) == 0


def test_what_others_used_is_what_neither_we_nor_postgresql_used():
    before = Usage(at_s=10.0, machine_s=100.0, ours_s=50.0)
    assert Usage(at_s=14.0, machine_s=108.0, ours_s=52.0).others_since(before) == 1.5
    now = usage(os.getpid())
    assert 0 < now.ours_s < now.machine_s


# ---- the engine's own side ----------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FAN_OUT", 40)
    monkeypatch.setattr(driver, "SETTLE_S", 0.0)
    monkeypatch.setattr(driver, "SIGNALS_ONE_AT_A_TIME", 3)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("workload", "runs", "in_flight", "steps", "latencies"),
    [
        ("W1", 12, 4, 120, 12),
        ("W2a", 3, 1, 3, 3),
        ("W2b", 2, 1, 20, 2),
        ("W3", 2, 1, 80, 2),
        ("W3c", 1, 1, 40, 1),
        ("W4", 8, 4, 0, 3),
        ("W5", 6, 6, 0, 6),
    ],
)
async def test_the_side_of_the_engine(
    workload: str, runs: int, in_flight: int, steps: int, latencies: int, database: Database
):
    options = driver.Options(
        workload=workload, variant="default", runs=runs, in_flight=in_flight, database=database.dsn,
        postgres_pid=os.getpid(), folder="", cache="",
    )  # fmt: skip
    async with open_side(options) as side:
        result = await driver.WORKLOADS[workload](side, options)
    assert (result.runs, result.steps, len(result.latencies_s)) == (runs, steps, latencies)
    assert result.seconds > 0
    if workload == "W4":
        assert set(result.more) == {
            "parks_per_s", "signalled_per_s", "bytes_each_in_program", "bytes_each_in_postgresql"
        }  # fmt: skip
    if workload == "W5":
        assert result.seconds >= driver.SLEEP_S
        assert all(0 <= late_s < 20 for late_s in result.latencies_s)


class LyingSide(driver.Side):
    """Gives fewer results than were asked for, other values than were sent, and wakes too early."""

    def processes(self) -> dict[str, list[int]]:
        return {}

    async def run(self, steps: int) -> None:
        return

    async def gather_steps(self, count: int) -> int:
        return count - 1

    async def park(self, number: int) -> object:
        return number

    async def signal(self, parked: object) -> int:
        return 6

    async def start_sleeper(self) -> object:
        return None

    async def lateness_s(self, sleeper: object) -> float:
        return -0.1


@pytest.mark.parametrize(("workload", "told"), [("W3", "but 9 results"), ("W4", "gave 6"), ("W5", "0.100 s too early")])
async def test_wrong_results_are_no_figures(workload: str, told: str):
    options = driver.Options(
        workload=workload, variant="default", runs=1, in_flight=1, database="", postgres_pid=0, folder="", cache=""
    )
    with pytest.raises(driver.WrongResultError, match=told):
        await driver.WORKLOADS[workload](LyingSide(), options)


async def test_a_side_is_measured_in_a_process_of_its_own(database: Database, tmp_path: Path):
    target = Target(database=database.dsn, postgres_pid=os.getpid(), cache=tmp_path)
    sample = await measure(entry(OURS), HERE, target, timeout_s=60)
    assert sample.error == ""
    assert sample.figures["runs_per_s"] > 0
    assert sample.figures["p50_ms"] <= sample.figures["p99_ms"]


async def test_a_side_that_fails_or_takes_too_long_is_told(tmp_path: Path):
    nowhere = Target(database="postgresql://127.0.0.1:1/none", postgres_pid=os.getpid(), cache=tmp_path)
    failed = await measure(entry(OURS), HERE, nowhere, timeout_s=60)
    assert "Error" in failed.error
    assert failed.figures == {}
    late = await measure(entry(OURS), HERE, nowhere, timeout_s=0.01)
    assert late.error == "no result within 0 s"


async def test_a_side_ends_with_the_process_that_measures(tmp_path: Path):
    code = (
        "import signal; from scripts.benchmarks.peers.sides.driver import stop_with_parent; "
        "stop_with_parent(); print('up', flush=True); signal.pause()"
    )
    side = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=CHECKOUT, start_new_session=True,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert side.stdin is not None
    assert side.stdout is not None
    assert await side.stdout.readline() == b"up\n"
    side.stdin.close()
    assert await asyncio.wait_for(side.wait(), 60) == -9


def test_a_side_reads_what_the_measuring_process_writes(tmp_path: Path):
    target = Target(database="postgresql:///x", postgres_pid=7, cache=tmp_path)
    arguments = command(entry(OURS, "uvloop"), HERE, target, tmp_path / "folder")
    assert arguments[:3] == [sys.executable, "-m", "scripts.benchmarks.peers.sides.ductor_side"]
    options = driver.read_options(arguments[3:])
    assert options == driver.Options(
        workload="W2a", variant="uvloop", runs=5, in_flight=1, database="postgresql:///x", postgres_pid=7,
        folder=str(tmp_path / "folder"), cache=str(tmp_path),
    )  # fmt: skip


# ---- the whole ----------------------------------------------------------------


def test_the_engine_alone_from_the_command_to_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["--cache", str(tmp_path / "cache"), "--quick", "--only", OURS, "--workloads", "W2a"]
    files = ["--json", str(tmp_path / "report.json"), "--markdown", str(tmp_path / "report.md")]
    assert main([*arguments, *files]) == 0
    written = json.loads((tmp_path / "report.json").read_bytes())
    assert [(one["entry"]["variant"], len(one["samples"])) for one in written["samples"]] == [
        ("default", 1),
        ("uvloop", 1),
    ]
    assert all(one["samples"][0]["figures"]["p50_ms"] > 0 for one in written["samples"])
    assert "fsync on" in written["report"]["environment"]["postgresql"]
    assert "### W2a: one run at a time" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "ductor, uvloop" in capsys.readouterr().out


def test_what_the_time_does_not_reach_is_named_and_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["--cache", str(tmp_path), "--quick", "--only", OURS, "--workloads", "W2a", "--minutes", "0.1"]
    assert main(arguments) == 1
    assert "W2a, ductor: 1 of 1 rounds not measured: the time was over" in capsys.readouterr().out


async def test_told_to_stop_it_leaves_nothing_behind(tmp_path: Path):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scripts.benchmarks.peers", "--cache", str(tmp_path / "cache"), "--only", OURS,
        "--workloads", "W2a", cwd=CHECKOUT, env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    async for line in process.stderr:
        if b"W2a, 1 in flight, ductor: p50_ms" in line:
            break
    assert process.returncode is None
    below = trees([process.pid]) - {process.pid}
    process.terminate()
    assert b"told to stop" in await process.stderr.read()
    assert await process.wait() == 1
    assert below
    assert all(stat_fields(pid)[:1] in ([], ["Z"]) for pid in below)
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
