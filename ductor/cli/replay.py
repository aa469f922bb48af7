"""`ductor replay`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions

if TYPE_CHECKING:
    from ductor.replay import Replay


def replay(  # noqa: PLR0913 - each is a way to look at a run, and all have defaults
    run: str,
    /,
    *,
    at: int | None = None,
    from_: Annotated[int | None, Parameter(name="--from")] = None,
    to: int | None = None,
    step_through: Annotated[bool, Parameter(negative="")] = False,
    diff: Annotated[tuple[int, int] | None, Parameter(negative="")] = None,
    attempts: str | None = None,
    diff_run: str | None = None,
    verify: Annotated[bool, Parameter(negative="")] = False,
    against: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    step: str | None = None,
    call: Annotated[bool, Parameter(negative="")] = False,
    generation: int | None = None,
    tasks: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    pdb: Annotated[bool, Parameter(negative="")] = False,
    functions: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Look at what a run was at any moment, prove it, and try what else it might have been. Nothing is written.

    Exit code 1 when a proof or a comparison finds a difference.

    Parameters
    ----------
    run
        Id of the run, or an export file that holds it (`FILE`, or `FILE#RUN` for one of several).
    at
        Show the run after this row of its journal; 0 is before the first. Without it: after the last.
    from_
        Show the run after every row from this one on.
    to
        The last row to show.
    step_through
        Walk through the rows, from `--at` on.
    diff
        Show what changed between two rows.
    attempts
        Show the attempts of this step beside each other.
    diff_run
        Compare with another run (an id or a file): the first decision that differs, and the steps that do.
    verify
        Fold the journal and compute every decision again, and tell the first event that differs.
    against
        Try another definition (file or folder): which steps would run, differ or be missing; whether the run could be
        moved to it.
    step
        The step whose handler `--call` calls.
    call
        Call the step's handler again with its recorded input. The run gets nothing of it.
    generation
        Which attempt of the step; the last one unless given.
    tasks
        Where handlers are: `module`, or `module:attribute`; may be given several times.
    pdb
        Stop at the handler's first line in the debugger, and where it raises.
    functions
        Where the functions are that expressions of the definition call: `module:attribute`.
    """
    from ductor.cli.arguments import ArgumentError
    from ductor.cli.recorded import recorded_replay
    from ductor.cli.session import run_async
    from ductor.cli.verdicts import print_verification, print_what_if
    from ductor.handlers import load_functions

    if call != (step is not None):
        raise ArgumentError("--call", "it goes together with `--step REF`")
    library = load_functions(functions) if functions is not None else None
    found = run_async(recorded_replay(run, database, output.output, library))
    if verify:
        return print_verification(found.verify(), output.output)
    if against:
        return print_what_if(found.what_if(*against), output.output)
    if step is not None:
        return _call(found, step, generation, tasks, pdb, output)
    if diff_run is not None:
        other = run_async(recorded_replay(diff_run, database, output.output, library))
        return _compare(found, other, output)
    if attempts is not None:
        return _attempts(found, attempts, output)
    if diff is not None:
        from ductor.cli.moments import print_changes

        print_changes(found.diff(*diff), output.output)
        return 0
    if step_through:
        from ductor.cli.stepping import step_through as walk

        walk(found, found.version if at is None else at)
        return 0
    return _show(found, at, from_, to, output)


def _show(replay: "Replay", at: int | None, from_: int | None, to: int | None, output: OutputOptions) -> int:
    from ductor.cli.moments import moment, print_moment
    from ductor.cli.output import print_json

    first = from_ if from_ is not None else at if at is not None else replay.version
    last = to if to is not None else replay.version if from_ is not None else first
    versions = range(first, last + 1)
    if output.output == "table":
        for number, version in enumerate(versions):
            if number:
                print()
            print_moment(replay, version)
    elif output.output == "json":
        print_json([moment(replay, version) for version in versions] if from_ is not None else moment(replay, first))
    else:
        for version in versions:
            print_json(moment(replay, version))
    return 0


def _attempts(replay: "Replay", step: str, output: OutputOptions) -> int:
    from ductor.actors.errors import AttemptNotRecordedError
    from ductor.cli.moments import print_attempts

    found = replay.attempts(step)
    if not found:
        raise AttemptNotRecordedError(replay.run_id, step, None, 0)
    print_attempts(found, output.output)
    return 0


def _compare(replay: "Replay", other: "Replay", output: OutputOptions) -> int:
    from ductor.cli.failures import EXIT_FAILED, EXIT_OK
    from ductor.cli.moments import print_run_difference

    difference = replay.compare(other)
    print_run_difference(difference, output.output)
    return EXIT_OK if difference.version is None else EXIT_FAILED


def _call(
    replay: "Replay", step: str, generation: int | None, tasks: tuple[str, ...], pdb: bool, output: OutputOptions
) -> int:
    from ductor.actors.handler_replay import call_again, recorded_assignment
    from ductor.actors.tasks import TaskRegistry
    from ductor.cli.debugging import debugged, examined
    from ductor.cli.session import run_async
    from ductor.cli.verdicts import print_handler_replay
    from ductor.handlers import load_tasks

    assignment, recorded = recorded_assignment(replay.run, replay.programs, step, generation)
    registry = TaskRegistry(load_tasks(tasks))
    task = registry.get(assignment.task)
    watched = pdb and task is not None
    found = run_async(  # the debugger traces this thread, and with it the loop that runs here
        call_again(
            assignment,
            recorded,
            registry,
            caller=debugged(task) if watched and task is not None else None,
            on_error=examined if watched else None,
        )
    )
    return print_handler_replay(found, output.output)
