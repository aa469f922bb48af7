"""What is told of a scatter while it runs: the explanation, the view, and pages of its children."""

from ductor.actors.children_of_steps import ChildCounts, children_page
from ductor.actors.explain import explain
from tests.actors.explaining import HOST, all_reasons, explained, pause, step_reason
from tests.actors.tick.driver import Driver
from tests.actors.tick.test_scatters import of

WORK = "type: task, task: work"


def test_a_scatter_says_how_many_are_under_way_and_what_holds_the_rest_back():
    run = of(list(range(10)), "concurrency: 3", do=WORK)
    run.finish("each[1]")
    run.fail("each[0]")
    reason = step_reason(run, "each")
    assert (reason.kind, reason.since_us) == ("child", run.state.nodes["each"].parked_at_us)
    assert reason.text == (
        "waits for its children: 2 of 10 have settled (1 succeeded, 1 failed), 3 under way, "
        "5 not started: no more than 3 may be under way (`concurrency`)"
    )
    assert reason.details["not_started"] == 5
    assert [child.ref for child in reason.children] == ["each[2]", "each[3]", "each[4]"]
    assert {child.kind for child in reason.children} == {"running"}


def test_children_are_told_beneath_their_scatter_the_oldest_of_them():
    run = of(list(range(20)), do=WORK)
    found = explained(run)
    assert [reason.ref for reason in found.steps] == ["each", "all"]
    assert [child.ref for child in found.steps[0].children] == [f"each[{index}]" for index in range(5)]
    assert found.omitted == 0


def test_an_interval_and_a_retry_are_told():
    run = of([1, 2], "interval_ms: 1500", do=f"{WORK}, retry: {{max_attempts: 2, initial: 5s, jitter: 0}}")
    run.fail("each[0]")
    reason = step_reason(run, "each")
    assert "1 not started: 1s500ms lie between two starts (`interval_ms`)" in reason.text
    assert (reason.children[0].ref, reason.children[0].kind) == ("each[0]", "retry")
    pause(run)
    assert "are left when the run is resumed" in step_reason(run, "each").text


def test_what_ends_a_scatter_early_is_told_with_the_values_of_now():
    run = of([1, 2, 3], "complete_when: succeeded > 1", do=WORK)
    run.finish("each[0]")
    (guard,) = [reason for reason in all_reasons(explained(run)) if reason.kind == "guard"]
    assert (guard.ref, guard.details["values"], guard.details["holds"]) == ("each", {"succeeded": 1}, False)


def test_children_are_told_themselves_while_their_run_ends():
    run = of([1, 2], do=WORK)
    run.request("cancel")
    assert [reason.ref for reason in explained(run).steps if reason.kind == "running"] == ["each[0]", "each[1]"]


def test_a_failed_gather_says_whose_failure_it_was():
    run = of([1, 2], do=WORK, gather="raise")
    run.fail("each[1]", "TooHeavy")
    found = explain(run.state, run.program, hosts=(HOST,), now_us=run.now_us)
    (failed,) = [reason for reason in found.steps if reason.kind == "failed"]
    assert (failed.ref, "TooHeavy: each[1] failed" in failed.text) == ("all", True)


def partly_done() -> Driver:
    run = of(["a", "b", "c", "d", "e"], "concurrency: 2\n        key_expr: item", do=WORK)
    run.finish("each[0]", "A")
    run.fail("each[1]")
    run.finish("each[3]", "D")
    return run


def test_children_can_be_read_while_the_others_run():
    page = children_page(partly_done().state, "each", after=-1, limit=100)
    assert page.counts == ChildCounts(total=5, started=5, open=2, succeeded=2, failed=1, cancelled=0)
    assert [(child.index, child.key, child.status) for child in page.children] == [
        (0, "a", "succeeded"),
        (1, "b", "failed"),
        (2, "c", "running"),
        (3, "d", "succeeded"),
        (4, "e", "running"),
    ]
    assert (page.children[0].output, page.children[3].output) == ("A", "D")
    assert page.children[1].error is not None
    assert page.next_after is None


def test_children_come_in_pages():
    state = partly_done().state
    seen: list[int] = []
    after: int | None = -1
    while after is not None:
        page = children_page(state, "each", after=after, limit=2)
        assert len(page.children) <= 2
        seen += [child.index for child in page.children]
        after = page.next_after
    assert seen == [0, 1, 2, 3, 4]


def test_children_of_one_status_only():
    state = partly_done().state
    page = children_page(state, "each", after=-1, limit=1, status="succeeded")
    assert ([child.index for child in page.children], page.next_after) == ([0], 0)
    page = children_page(state, "each", after=0, limit=1, status="succeeded")
    assert ([child.index for child in page.children], page.next_after) == ([3], None)


def test_children_that_never_started_are_pending_and_cancelled_once_the_run_has_ended():
    run = of([1, 2, 3], "concurrency: 1", do=WORK)
    assert [child.status for child in children_page(run.state, "each", after=0, limit=9).children] == ["pending"] * 2
    run.request("terminate")
    assert [child.status for child in children_page(run.state, "each", after=0, limit=9).children] == ["cancelled"] * 2


def test_a_scatter_without_items_yet_has_no_children():
    run = Driver(
        """
        steps:
          - {ref: first, type: task, task: work, next: each}
          - {ref: each, type: scatter, items_expr: "[1]", do: {type: task, task: work}}
        """
    )
    assert children_page(run.state, "each", after=-1, limit=9).children == ()
