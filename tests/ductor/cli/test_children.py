"""Children of a scatter with the real command, on a real PostgreSQL; no handler is needed for what fails at once."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ductor.cli.processes import Call, HostProcess

FANNED = """
ductor: 1
name: fanned
input: {type: array}
steps:
  - ref: each
    type: scatter
    items_expr: trigger
    key_expr: '"key-" + string(index)'
    do: {type: task, task: nobody.has_it, input: "${item.id}"}
    next: all
  - {ref: all, type: gather, scatter_ref: each}
output: ${steps.all.output}
"""


NESTED = """
ductor: 1
name: nested
steps:
  - ref: outer
    type: subworkflow
    do:
      steps:
        - {ref: before, type: transform, value: 1, next: inner}
        - ref: inner
          type: subworkflow
          do: {steps: [{ref: first, type: transform, value: 1, next: second}, {ref: second, type: transform, value: 2}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fanned.yaml").write_text(FANNED)
    (tmp_path / "nested.yaml").write_text(NESTED)
    return tmp_path


def test_children_are_shown_page_by_page(call: Call, host: Callable[..., HostProcess]):
    assert call("db", "migrate").returncode == 0
    host("--definitions", ".").health()
    run_id = call("start", "fanned", "--input", '[{}, {"wrong": 1}, {}]').stdout.strip()
    assert call("watch", run_id, "--timeout", "30s").returncode == 0

    page = json.loads(call("show", run_id, "--children", "each", "--limit", "2", "-o", "json").stdout)
    assert [(child["index"], child["key"], child["status"]) for child in page["children"]] == [
        (0, "key-0", "failed"),
        (1, "key-1", "failed"),
    ]
    assert page["next_after"] == 1
    rest = call("show", run_id, "--children", "each", "--after", "1")
    assert "key-2" in rest.stdout
    assert "3 children: 3 started, 0 under way, 0 succeeded, 3 failed, 0 cancelled" in rest.stdout
    assert "key-" not in call("show", run_id, "--children", "each", "--status", "succeeded").stdout
    for wrong in (
        ("--children", "each", "--limit", "0"),
        ("--children", "each", "--limit", "1001"),
        ("--status", "failed"),
    ):
        refused = call("show", run_id, *wrong)
        assert (refused.returncode, refused.stdout) == (2, ""), wrong
    missing = call("show", run_id, "--children", "all")
    assert (missing.returncode, "no scatter 'all'" in missing.stderr) == (3, True)
    (step,) = [step for step in json.loads(call("show", run_id, "-o", "json").stdout)["steps"] if step["ref"] == "each"]
    assert step["children"]["failed"] == 3


def test_the_graph_of_a_run_of_a_body_is_that_of_the_body(call: Call, host: Callable[..., HostProcess]):
    assert call("db", "migrate").returncode == 0
    host("--definitions", ".").health()
    root = call("start", "nested").stdout.strip()
    assert call("watch", root, "--timeout", "30s").returncode == 0
    heads = json.loads(call("runs", "--root", root, "-o", "json").stdout)
    run_ids = {"nested": root, **{head["definition"]: head["run_id"] for head in heads}}
    marked = {name: sorted(re.findall(r"✔ (\w+)", call("graph", run_id).stdout)) for name, run_id in run_ids.items()}
    assert marked == {
        "nested": ["outer"],
        "nested/outer": ["before", "inner"],
        "nested/outer/inner": ["first", "second"],
    }
