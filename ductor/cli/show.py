"""`ductor show`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from ductor.cli.arguments import ArgumentError
from ductor.cli.options import DatabaseOptions, OutputOptions, RedisOptions

if TYPE_CHECKING:
    from ductor.actors.children_of_steps import ChildrenPage
    from ductor.actors.reasons.reason import Reason
    from ductor.actors.views import RunView
    from ductor.cli.options import OutputFormat
    from ductor.handle import RunHandle
    from ductor.journal.records import Head

VALUE_WIDTH = 60

CHILDREN_SHOWN = 100
"""Children of a scatter on a page, unless said."""
CHILD_RUNS_SHOWN = 20
"""The newest child runs of a run; `ductor runs --parent` lists all."""


def show(  # noqa: PLR0913 - each is an option, and all but the run have defaults
    run: str,
    /,
    *,
    children: str = "",
    after: int = -1,
    limit: int = CHILDREN_SHOWN,
    status: Literal["pending", "running", "waiting", "succeeded", "failed", "cancelled"] | None = None,
    follow: bool = True,
    database: DatabaseOptions = DatabaseOptions(),
    redis: RedisOptions = RedisOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Show a run and its steps: what is done, what is running, and what it waits for.

    Parameters
    ----------
    run
        Id of the run.
    children
        A scatter: show a page of its children instead, with their results and errors; `--after` the index of the last
        one of the page before, `--limit` of them at most, only those of a `--status`.
    follow
        Where other runs continue this one, show the latest; with `--no-follow` this very one.
    """
    import msgspec

    from ductor.cli.output import print_json
    from ductor.cli.session import connected, run_async

    _check_page(limit)
    for name, is_given in (("--after", after != -1), ("--limit", limit != CHILDREN_SHOWN), ("--status", status)):
        if is_given and not children:
            raise ArgumentError(name, "it goes together with `--children STEP`")

    async def work() -> int:
        async with connected(database, output.output, redis) as client:
            handle = client.run(run)
            if children:
                page = await handle.children_of_step(children, after=after, limit=limit, status=status, follows=follow)
                if output.output == "table":
                    _print_children(page)
                else:
                    print_json(page)
                return 0
            view = await handle.status(follows=follow)
            child_runs = await client.run(view.run_id).children(limit=CHILD_RUNS_SHOWN + 1)
            of_run, reasons = await _reasons(handle, output.output, follows=follow)
        unfinished = [step.ref for step in view.steps if step.status in ("running", "waiting") and step.ref in reasons]
        if output.output == "table":
            _print(view, of_run, {ref: awaited(reasons[ref]) for ref in unfinished})
            _print_child_runs(view.run_id, child_runs)
        else:
            more = {"waits_for": {ref: reasons[ref] for ref in unfinished}, "child_runs": child_runs}
            print_json({**msgspec.to_builtins(view), **more})
        return 0

    return run_async(work())


def _check_page(limit: int) -> None:
    from ductor.actors.children_of_steps import MAX_CHILDREN_PER_PAGE

    if not 1 <= limit <= MAX_CHILDREN_PER_PAGE:
        raise ArgumentError("--limit", f"from 1 to {MAX_CHILDREN_PER_PAGE}, found {limit}")


async def _reasons(
    handle: "RunHandle", output: "OutputFormat", *, follows: bool
) -> "tuple[Sequence[Reason], dict[str, Reason]]":
    """Why the run is where it is, and each of its steps."""
    from ductor.cli.output import say
    from ductor.definitions.expressions import ExpressionSyntaxError

    try:
        explanation = await handle.explain(follows=follows)
    except ExpressionSyntaxError as error:
        # its hosts have functions that this process lacks; everything else can be shown
        say(f"note: what it waits for can't be told here: {error}", output)
        return (), {}
    return explanation.run, dict(reasons_by_ref(explanation.steps))


def _print_child_runs(run_id: str, heads: "Sequence[Head]") -> None:
    from ductor.cli.output import print_table, timestamp

    if not heads:
        return
    print()
    cells = [
        (
            head.run_id,
            head.parent_node,
            head.definition,
            head.status,
            timestamp(head.ended_at_us),
            head.error_type or "",
        )
        for head in heads[:CHILD_RUNS_SHOWN]
    ]
    print_table(("child run", "step", "definition", "status", "ended (UTC)", "error"), cells)
    if len(heads) > CHILD_RUNS_SHOWN:
        print(f"more: ductor runs --parent {run_id}")


def _print_children(page: "ChildrenPage") -> None:
    from ductor.cli.output import json_text, print_table

    cells = [
        (
            str(child.index),
            child.key,
            child.status,
            str(child.attempts or ""),
            f"{child.error.type}: {child.error.message}"
            if child.error is not None
            else json_text(child.output, VALUE_WIDTH)
            if child.output is not None
            else child.waiting and f"waits: {child.waiting}",
        )
        for child in page.children
    ]
    print_table(("index", "key", "status", "attempts", "error or output"), cells)
    counts = page.counts
    print(
        f"{counts.total} children: {counts.started} started, {counts.open} under way, {counts.succeeded} succeeded, "
        f"{counts.failed} failed, {counts.cancelled} cancelled"
    )
    if page.next_after is not None:
        print(f"more: --after {page.next_after}")


def awaited(reason: "Reason") -> str:
    """What an unfinished step waits for, in words: the cause that lies deepest, since when and until when."""
    from ductor.cli.output import timestamp

    text = reason.text
    for child in reason.children:
        if child.kind == "no_worker":
            text += f": {child.text}; start one with it (`ductor host --tasks MODULE`, or `ductor worker`)"
        elif child.kind == "dead_letter":
            text += f": {child.text}"
    since = f"since {timestamp(reason.since_us)}" if reason.since_us else ""
    until = f"until {timestamp(reason.until_us)}" if reason.until_us else ""
    times = ", ".join(part for part in (since, until) if part)
    return f"{text} ({times})" if times else text


def reasons_by_ref(reasons: "Iterable[Reason]") -> "Iterator[tuple[str, Reason]]":
    """The reason of each step, those beneath others too."""
    for reason in reasons:
        if reason.ref and reason.kind not in ("edge", "guard", "timeout", "no_worker", "told_elsewhere"):
            yield reason.ref, reason
        yield from reasons_by_ref(reason.children)


def _print(view: "RunView", of_run: "Sequence[Reason]", waits: Mapping[str, str]) -> None:
    from ductor.cli.output import json_text, print_table
    from ductor.graph.marks import UNDO_WORDS

    for label, value in _facts(view):
        print(f"{label + ':':<12} {value}")
    for reason in of_run:
        if reason.kind != "ended":
            print(f"{'':<12} {awaited(reason)}")
    print()
    cells = [
        (
            f"{step.ref}{' (at the end)' if step.is_defer else ''}",
            step.type,
            f"{step.status}, {UNDO_WORDS[step.undo]}" if step.undo else step.status,
            str(step.attempts or ""),
            waits.get(step.ref)
            or (f"{step.error.type}: {step.error.message}" if step.error is not None else "")
            or (json_text(step.output, VALUE_WIDTH) if step.output is not None else ""),
        )
        for step in view.steps
    ]
    print_table(("step", "type", "status", "attempts", "waits for, error or output"), cells)


def _facts(view: "RunView") -> Iterator[tuple[str, str]]:
    from ductor.cli.output import json_text, timestamp

    version = f" version {view.definition_version}" if view.definition_version else ""
    yield "run", view.run_id
    yield "definition", f"{view.definition}{version} ({view.manifest_hash[:12]})"
    yield "status", f"{view.status}{f' ({view.reason})' if view.reason else ''}"
    yield "started", f"{timestamp(view.started_at_us)} UTC"
    if view.ended_at_us:
        yield "ended", f"{timestamp(view.ended_at_us)} UTC"
    if view.chain_run_id is not None:
        yield "chain", f"run {view.iteration + 1} of the chain that {view.chain_run_id} began"
    if view.successor_run_id is not None:
        yield "successor", view.successor_run_id
    if view.key is not None:
        yield "key", view.key
    yield "trigger", json_text(view.trigger, 2_000)
    if view.context:
        yield "context", json_text(view.context, 2_000)
    if view.error is not None:
        yield "error", f"{view.error.type}: {view.error.message}".removesuffix(": ")
    if view.compensated:
        left = f"not {', '.join(view.not_undone)}" if view.not_undone else "all that it had done"
        before = "; what the runs before it did is done for good" if view.chain_run_id is not None else ""
        yield "undone", left + before
    if view.status == "completed":
        yield "output", json_text(view.output, 2_000)
