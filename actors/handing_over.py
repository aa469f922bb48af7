"""The runs that a commit has started, ready to be carried out: nothing of them needs to be read. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from ductor.actors.commits import state_of
from ductor.actors.messages import RunBegun
from ductor.actors.tick.outbox import StartedRun
from ductor.definitions.program import Program
from ductor.journal.commit import NewRun


def begun_runs(
    program: Program, library: Mapping[str, Program], started: Sequence[StartedRun], new_runs: Sequence[NewRun]
) -> Iterator[RunBegun]:
    """What the coordinators of the runs are told. One whose key was taken after all finds out with its first commit.

    Args:
        program: what the run carries out that has started them; library: what it may start, by manifest hash.
        started, new_runs: the runs, as the tick has decided them and as the commit has written them.
    """
    for run, new_run in zip(started, new_runs, strict=True):
        carried_out = library.get(run.started.manifest_hash, program)
        if run.started.body:
            carried_out = carried_out.bodies[run.started.body]
        yield RunBegun(state_of(run, new_run), carried_out, library)
