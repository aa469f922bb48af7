"""Scatters against a small model: whatever happens in whatever order, children, counts, joins and results are right.

The model knows nothing of events or folds. It keeps a list of children and looks through all of it each time.
"""

from typing import Literal

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from ductor.actors.tick.gathering import output_of
from ductor.definitions.values import JsonValue
from ductor.journal.events import AttemptFinished, ErrorInfo
from tests.actors.tick.driver import Driver, settlements
from tests.actors.tick.test_redrives import from_

RETRY_S = 3
ACTIONS = (
    "finish",
    "finish",
    "finish",
    "fail",
    "fail",
    "batch",
    "late",
    "advance",
    "pause",
    "other",
    "stop",
    "redrive",
    "again",
)

ChildStatus = Literal["unstarted", "running", "retrying", "succeeded", "failed", "cancelled"]


class Plan(msgspec.Struct, frozen=True):
    """A scatter, and perhaps another step that cancels it. An `enough_succeeded` or `enough_failed` of 0 means that it
    has no such condition."""

    items: int
    concurrency: int | None
    interval_s: int
    attempts: int
    strategy: str
    enough_succeeded: int
    enough_failed: int
    has_other: bool

    @property
    def text(self) -> str:
        conditions = [f"succeeded >= {self.enough_succeeded}"] if self.enough_succeeded else []
        conditions += [f"failed >= {self.enough_failed}"] if self.enough_failed else []
        retry = f"{{max_attempts: {self.attempts}, initial: {RETRY_S}s, factor: 1, jitter: 0}}"
        return f"""
        steps:
          - ref: each
            type: scatter
            items_expr: trigger
            interval_ms: {self.interval_s * 1_000}
            {f"concurrency: {self.concurrency}" if self.concurrency else ""}
            {f"complete_when: {' || '.join(conditions)}" if conditions else ""}
            do: {{type: task, task: t, retry: {retry}}}
            next: all
          - {{ref: all, type: gather, scatter_ref: each, strategy: {self.strategy}}}
          {"- {ref: other, type: task, task: t, cancels: [each]}" if self.has_other else ""}
        """


PLANS = st.builds(
    Plan,
    items=st.integers(0, 6),
    concurrency=st.none() | st.integers(1, 3),
    interval_s=st.sampled_from([0, 0, 2]),
    attempts=st.integers(1, 2),
    strategy=st.sampled_from(["partition", "include", "drop", "raise"]),
    enough_succeeded=st.sampled_from([0, 0, 2]),
    enough_failed=st.sampled_from([0, 0, 2]),
    has_other=st.sampled_from([False, False, True]),
)


class Child(msgspec.Struct):
    status: ChildStatus = "unstarted"
    attempts: int = 0
    due_s: float = 0.0
    output: JsonValue = None


class Model:
    """What a scatter and its gather should do."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now_s = 0.0
        self.children = [Child() for _ in range(plan.items)]
        self.scatter: Literal["open", "done", "cancelled"] = "open"
        self.pause_ends_s = 0.0
        self.is_closing = False
        self.first_failed: int | None = None
        if not self.children:
            self.scatter = "done"
        self.start()

    def with_status(self, *statuses: ChildStatus) -> list[Child]:
        return [child for child in self.children if child.status in statuses]

    def start(self) -> None:
        for child in self.children:
            limit = self.plan.concurrency
            is_full = limit is not None and len(self.with_status("running", "retrying")) >= limit
            if self.scatter != "open" or is_full or (self.plan.interval_s and self.now_s < self.pause_ends_s):
                return
            if child.status == "unstarted":
                child.status, child.attempts = "running", 1
                self.pause_ends_s = self.now_s + self.plan.interval_s

    def result(self, index: int, *, is_success: bool, output: JsonValue = None) -> None:
        child = self.children[index]
        if is_success:
            child.status, child.output = "succeeded", output
        elif child.attempts < self.plan.attempts and not self.is_closing:
            child.status, child.due_s = "retrying", self.now_s + RETRY_S
        else:
            child.status = "failed"
            self.first_failed = index if self.first_failed is None else self.first_failed

    def judge(self, settled_before: int) -> None:
        """After what came together."""
        settled = len(self.with_status("succeeded", "failed", "cancelled"))
        succeeded, failed = len(self.with_status("succeeded")), len(self.with_status("failed"))
        if self.scatter == "open" and settled > settled_before:
            plan = self.plan
            if (
                settled == plan.items
                or (plan.strategy == "raise" and failed)
                or (plan.enough_succeeded and succeeded >= plan.enough_succeeded)
                or (plan.enough_failed and failed >= plan.enough_failed)
            ):
                self.end("done")
        self.start()

    def end(self, how: Literal["done", "cancelled"]) -> None:
        self.scatter = how
        for child in self.with_status("running", "retrying"):
            child.status = "cancelled"

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        for child in self.with_status("retrying"):
            if child.due_s <= self.now_s:
                child.status, child.attempts = "running", child.attempts + 1
        self.start()

    def close(self) -> None:
        """The run ends badly: retries are off, attempts in flight are not."""
        self.is_closing = True
        if self.scatter == "open":
            self.scatter = "cancelled"
        for child in self.with_status("retrying"):
            child.status = "cancelled"

    def reopen(self, only: int | None) -> None:
        self.is_closing, self.first_failed = False, None
        self.pause_ends_s = 0.0
        for index, child in enumerate(self.children):
            if (child.status != "succeeded" and only is None) or index == only:
                self.children[index] = Child()
            elif child.status == "failed" and self.first_failed is None:
                self.first_failed = index
        is_left = bool(self.with_status("unstarted"))
        self.scatter = "open" if is_left else "done"
        self.start()

    @property
    def gathered(self) -> JsonValue:
        result: list[JsonValue] = []
        errors: dict[str, JsonValue] = {}
        for index, child in enumerate(self.children):
            error: JsonValue = {"type": "Boom", "message": "", "details": None}
            if child.status == "succeeded":
                result.append(child.output)
            elif self.plan.strategy == "include":
                result.append(error if child.status == "failed" else "cancelled")
            elif child.status == "failed" and self.plan.strategy == "partition":
                errors[str(index)] = error
        return {"result": result, "error": errors}


class Play:
    """The engine and the model, side by side."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.run = Driver(plan.text, list(range(plan.items)))
        self.model = Model(plan)
        self.late: list[AttemptFinished] = []
        self.count = 0
        self.redrives = 0
        self.compare()

    def act(self, action: str, number: int) -> None:
        run, model = self.run, self.model
        flying = sorted(ref for ref in run.in_flight if ref != "other" and run.state.nodes[ref].status == "running")
        before = len(model.with_status("succeeded", "failed", "cancelled"))
        is_live = not run.state.is_terminal and run.state.closing is None
        if action in ("finish", "fail") and flying and is_live:
            self.settle(flying[number % len(flying)], is_success=action == "finish")
            model.judge(before)
        elif action == "batch" and len(flying) > 1 and is_live:
            self.settle(*flying[: 2 + number % 3][::-1], is_success=number % 2 == 0)
            model.judge(before)
        elif action == "late" and self.late:
            result = self.late[number % len(self.late)]
            assert run.tick(results=[result, result]).superseded == [result, result]
        elif action == "advance" and is_live:
            run.advance(1 + number % 3)
            model.advance(1 + number % 3)
        elif action == "pause" and is_live:
            run.request("pause", f"p-{run.state.version}")
            run.now_us += 7_000_000
            run.request("resume", f"r-{run.state.version}")
        elif action == "other" and "other" in run.in_flight and is_live:
            run.finish("other", "done")
            if model.scatter == "open":
                model.end("cancelled")
        elif action == "stop" and is_live:
            run.request("cancel", f"c-{run.state.version}")
            model.close()
        elif action in ("redrive", "again") and run.state.is_terminal:
            self.redrive(action, number)
        self.wind_down()
        self.compare()

    def settle(self, *refs: str, is_success: bool) -> None:
        results: list[AttemptFinished] = []
        for ref in refs:
            index, self.count = int(ref[5:-1]), self.count + 1
            generation = self.run.in_flight.pop(ref)
            if is_success:
                result = AttemptFinished(node=ref, generation=generation, outcome="succeeded", output=self.count)
            else:
                error = ErrorInfo(type="Boom")
                result = AttemptFinished(node=ref, generation=generation, outcome="failed", error=error)
            results.append(result)
            self.model.result(index, is_success=is_success, output=self.count)
        self.late += results
        self.run.tick(results=results)

    def redrive(self, action: str, number: int) -> None:
        run, model = self.run, self.model
        started = [index for index, child in enumerate(model.children) if child.status != "unstarted"]
        is_raised = run.state.nodes["all"].status == "failed" if "all" in run.state.nodes else False
        if action == "again" and run.state.status == "completed" and started and model.scatter == "done":
            only = started[number % len(started)]
            run.request("redrive", f"d-{run.state.version}", **from_(f"each[{only}]"))
            model.reopen(only)
        elif run.state.status != "completed" and (is_raised or model.scatter == "cancelled"):
            if run.state.nodes["each"].outcome == "withdrawn":
                return  # another step has cancelled it, and it stays so
            run.request("redrive", f"d-{run.state.version}")
            model.reopen(None)
        else:
            return
        self.redrives += 1

    def wind_down(self) -> None:
        """Once the run ends badly what is in flight stops, the first of the children with success all the same."""
        run, model = self.run, self.model
        if model.scatter == "done" and model.first_failed is not None and self.plan.strategy == "raise":
            model.is_closing = True
        while not run.state.is_terminal and run.state.closing is not None:
            ref = next(ref for ref in run.state.open_nodes)
            if ref == "other":
                run.stopped(ref)
                continue
            index = int(ref[5:-1])
            is_success = index % 2 == 0
            model.children[index].status = "succeeded" if is_success else "cancelled"
            self.count += 1
            model.children[index].output = self.count
            if is_success:
                run.finish(ref, self.count)
            else:
                run.stopped(ref)

    def compare(self) -> None:
        run, model = self.run, self.model
        names = {"retrying": "waiting"}
        found = [run.state.nodes.get(f"each[{index}]") for index in range(self.plan.items)]
        statuses = ["unstarted" if node is None or node.status == "pending" else node.status for node in found]
        assert statuses == [names.get(child.status, child.status) for child in model.children]
        wanted = {"open": "waiting", "done": "succeeded", "cancelled": "cancelled"}[model.scatter]
        assert run.state.nodes["each"].status == wanted
        gather = run.state.nodes.get("all")
        if model.scatter == "done":
            assert gather is not None
            if self.plan.strategy == "raise" and model.first_failed is not None:
                assert (gather.status, run.state.status) == ("failed", "failed")
                assert gather.error is not None
                index = model.first_failed
                assert gather.error.details == {"key": str(index), "index": index, "details": None}
            else:
                assert _without_texts(output_of(run.state, "all", gather)) == model.gathered
        for ref in ("each", "all"):
            assert len(settlements(run.events(), ref)) <= 1 + self.redrives


def _without_texts(gathered: JsonValue) -> JsonValue:
    assert isinstance(gathered, dict)
    result = gathered["result"]
    assert isinstance(result, list)
    cancelled = [
        "cancelled" if isinstance(value, dict) and value["type"] == "ChildCancelled" else value for value in result
    ]
    return {"result": cancelled, "error": gathered["error"]}


@settings(max_examples=150, deadline=None)
@given(plan=PLANS, actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 9)), max_size=25))
def test_a_scatter_does_what_the_model_does(plan: Plan, actions: list[tuple[str, int]]):
    play = Play(plan)
    for action, number in actions:
        play.act(action, number)
