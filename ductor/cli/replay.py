"""`ductor replay`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions

if TYPE_CHECKING:
    from ductor.replay import Replay


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Looking:
    """Which moments, or what between them, is shown."""

    at: Annotated[
        int | None,
        Parameter(help="Show the run after this row of its journal; 0 is before the first, without it after the last."),
    ] = None
    from_: Annotated[int | None, Parameter(name="--from", help="Show the run after every row from this one on.")] = None
    to: Annotated[int | None, Parameter(help="The last row to show.")] = None
    step_through: Annotated[bool, Parameter(negative="", help="Walk through the rows, from `--at` on.")] = False
    diff: Annotated[tuple[int, int] | None, Parameter(negative="", help="Show what changed between two rows.")] = None
    attempts: Annotated[str | None, Parameter(help="Show the attempts of this step beside each other.")] = None
    diff_run: Annotated[
        str | None, Parameter(help="Compare with another run (an id or a file): the first decision that differs.")
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Calling:
    """Which handler is called again, and how."""

    step: Annotated[str | None, Parameter(help="The step whose handler `--call` calls.")] = None
    call: Annotated[
        bool,
        Parameter(negative="", help="Call the step's handler with its recorded input. The run gets nothing of it."),
    ] = False
    generation: Annotated[int | None, Parameter(help="Which attempt of the step; the last one unless given.")] = None
    tasks: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="Where handlers are: `module`, or `module:attribute`; may be given several times."),
    ] = ()
    pdb: Annotated[
        bool, Parameter(negative="", help="Stop at the handler's first line in the debugger, and where it raises.")
    ] = False


def replay(
    run: str,
    /,
    *,
    looking: Looking = Looking(),
    verify: Annotated[bool, Parameter(negative="")] = False,
    against: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    calling: Calling = Calling(),
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
    verify
        Fold the journal and compute every decision again, and tell the first event that differs.
    against
        Try another definition (file or folder): which steps would run, differ or be missing; whether it could be moved.
    functions
        Where the functions are that expressions of the definition call: `module:attribute`.
    """
    from ductor.cli.recorded import recorded_replay
    from ductor.cli.session import run_async
    from ductor.cli.verdicts import print_verification, print_what_if
    from ductor.handlers import load_functions

    _check(looking, calling, verify=verify, against=bool(against))
    library = load_functions(functions) if functions is not None else None
    found = run_async(recorded_replay(run, database, output.output, library))
    if verify:
        return print_verification(found.verify(), output.output)
    if against:
        return print_what_if(found.what_if(*against), output.output)
    if calling.step is not None:
        return _call(found, calling.step, calling, output)
    if looking.diff_run is not None:
        other = run_async(recorded_replay(looking.diff_run, database, output.output, library))
        return _compare(found, other, output)
    return _look(found, looking, output)


def _check(looking: Looking, calling: Calling, *, verify: bool, against: bool) -> None:
    """Refuse what would be passed over in silence. Raises ArgumentError."""
    from ductor.cli.arguments import ArgumentError

    if calling.call != (calling.step is not None):
        raise ArgumentError("--call", "it goes together with `--step REF`")
    details = {"--generation": calling.generation is not None, "--tasks": bool(calling.tasks), "--pdb": calling.pdb}
    for name, is_given in details.items():
        if is_given and not calling.call:
            raise ArgumentError(name, "it goes together with `--step REF --call`")
    if looking.to is not None and looking.from_ is None:
        raise ArgumentError("--to", "it goes together with `--from A`")
    if looking.from_ is not None and looking.to is not None and looking.to < looking.from_:
        raise ArgumentError("--to", f"{looking.to} comes before `--from {looking.from_}`")
    questions = {
        "--verify": verify,
        "--against": against,
        "--call": calling.call,
        "--diff-run": looking.diff_run is not None,
        "--attempts": looking.attempts is not None,
        "--diff": looking.diff is not None,
        "--from": looking.from_ is not None,
        "--step-through": looking.step_through,
        "--at": looking.at is not None and not looking.step_through,
    }
    asked = [name for name, is_asked in questions.items() if is_asked]
    if len(asked) > 1:
        raise ArgumentError(asked[1], f"it does not go together with `{asked[0]}`: ask one after the other")


def _look(replay: "Replay", looking: Looking, output: OutputOptions) -> int:
    import sys

    from ductor.cli.moments import print_changes
    from ductor.cli.stepping import step_through

    if looking.attempts is not None:
        return _attempts(replay, looking.attempts, output)
    if looking.diff is not None:
        print_changes(replay.diff(*looking.diff), output.output)
        return 0
    if looking.step_through:
        step_through(replay, replay.version if looking.at is None else looking.at, sys.stdin)
        return 0
    return _show(replay, looking.at, looking.from_, looking.to, output)


def _show(replay: "Replay", at: int | None, from_: int | None, to: int | None, output: OutputOptions) -> int:
    from ductor.cli.moments import moment, print_moment
    from ductor.cli.output import print_json

    first = from_ if from_ is not None else at if at is not None else replay.version
    last = to if to is not None else replay.version if from_ is not None else first
    versions = range(first, last + 1)
    for version in (first, last):
        if version:
            replay.run.row(version)  # before anything is printed
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
    from ductor.actors.handler_replay import recorded_attempts
    from ductor.cli.moments import print_attempts

    print_attempts(recorded_attempts(replay.run, step), output.output)
    return 0


def _compare(replay: "Replay", other: "Replay", output: OutputOptions) -> int:
    from ductor.cli.failures import EXIT_FAILED, EXIT_OK
    from ductor.cli.moments import print_run_difference

    difference = replay.compare(other)
    print_run_difference(difference, output.output)
    return EXIT_OK if difference.version is None else EXIT_FAILED


def _call(replay: "Replay", step: str, calling: Calling, output: OutputOptions) -> int:
    from ductor.actors.handler_replay import call_again, recorded_assignment
    from ductor.actors.tasks import TaskRegistry
    from ductor.cli.debugging import debugged, examined
    from ductor.cli.session import run_async
    from ductor.cli.verdicts import print_handler_replay
    from ductor.handlers import load_tasks

    assignment, recorded = recorded_assignment(replay.run, replay.programs, step, calling.generation)
    registry = TaskRegistry(load_tasks(calling.tasks))
    task = registry.get(assignment.task)
    watched = calling.pdb and task is not None
    try:
        found = run_async(  # the debugger traces this thread, and with it the loop that runs here
            call_again(
                assignment,
                recorded,
                registry,
                caller=debugged(task) if watched and task is not None else None,
                on_error=examined if watched else None,
            )
        )
    finally:
        if watched:
            sys.settrace(None)  # else it would stop whatever calls the handler next, and slow all else down
    return print_handler_replay(found, output.output)
