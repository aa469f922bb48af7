"""The entry of the command line: finds the command, runs it, and turns what went wrong into a message and an exit code.

Commands are named here and imported when they are called, so that `ductor --help` loads none of them.
"""

import os
import signal
import sys
from collections.abc import Sequence
from keyword import iskeyword
from typing import Final

from cyclopts import App, CycloptsError

from ductor.cli.failures import EXIT_INTERRUPTED, EXIT_OK, EXIT_TERMINATED, EXIT_USAGE, report_failure
from ductor.definitions.errors import DuctorError

COMMANDS: Final = {
    "validate": "Check definition files.",
    "test": "Run scenario files: workflows tested in virtual time.",
    "graph": "Draw a definition, or a run of it.",
    "publish": "Make definitions known, so that runs can be started.",
    "start": "Start a run.",
    "runs": "List runs.",
    "search": "Find runs among many.",
    "show": "Show a run and its steps.",
    "history": "Show a run's journal.",
    "watch": "Follow a run until it ends.",
    "explain": "Tell why a run does not move.",
    "inbox": "List what waits for people.",
    "leases": "List who holds leases, and who waits.",
    "hosts": "List hosts that live.",
    "workers": "List workers that live.",
    "signal": "Send a signal to a run.",
    "event": "Publish an event.",
    "approve": "Vote for what a step asks.",
    "reject": "Vote against what a step asks.",
    "case": "Work on a case.",
    "reply": "Answer a question.",
    "pause": "Let runs stand still.",
    "resume": "Let paused runs go on.",
    "cancel": "Ask runs to stop in order.",
    "terminate": "End runs at once.",
    "redrive": "Let a run that failed go on.",
    "compensate": "Undo what a run has done.",
    "continue": "Let a run begin anew with what it has learned.",
    "compact": "Let the history of a run begin now.",
    "release": "Let a run go on that was set aside.",
    "receipt": "Tell what became of something that was sent or asked.",
    "replay": "Look at what a run was, prove it, and try what else it might have been.",
    "verify": "Prove that nothing of a run's record was changed.",
    "verify-history": "Check recorded runs under other definitions.",
    "export": "Write runs to a file.",
    "import": "Bring exported runs into the database.",
    "host": "Carry out runs.",
    "worker": "Run handlers for hosts elsewhere.",
}

REPORTS: Final = {
    "runs": "List runs of a time.",
    "steps": "Tell what became of each step, and how long it took.",
    "failures": "Tell what failed, by cause.",
    "usage": "Tell what was used, by day.",
    "funnel": "Tell how runs went through the graph of a definition.",
    "inbox": "List what waits for people.",
    "health": "Tell what is open, what waits, and how far reports are behind.",
    "throughput": "Count runs over time.",
    "timeline": "Show a run in time.",
}

EPILOGUE: Final = (
    "Exit codes: 0 ok; 1 the run, check or test failed; 2 usage or invalid input; 3 not found; 4 the wait timed out; "
    "5 conflict."
)


def make_app() -> App:
    """The command line with all its commands."""
    app = App(
        name="ductor",
        help="Durable workflows over an event-sourced journal in PostgreSQL.",
        help_epilogue=EPILOGUE,
        version=_version,
        result_action="return_value",
    )
    for name, about in COMMANDS.items():
        function = name.replace("-", "_") + ("_" if iskeyword(name) else "")
        app.command(f"ductor.cli.{function}:{function}", name=name, help=about)
    database = App(name="db", help="Look after the database.")
    database.command("ductor.cli.db:migrate", name="migrate", help="Bring the database's schema up to date.")
    app.command(database)
    queue = App(name="queue", help="Look after the queue between processes.")
    home = "ductor.cli.queue"
    queue.command(f"{home}:depth", name="depth", help="Tell how much waits, and for how long.")
    queue.command(f"{home}:dead", name="dead", help="List what was set aside.")
    queue.command(f"{home}:replay", name="replay", help="Queue again what was set aside.")
    queue.command(f"{home}:drop", name="drop", help="Forget what was set aside.")
    app.command(queue)
    projection = App(name="projection", help="Look after read models.")
    home = "ductor.cli.projection"
    projection.command(f"{home}:list_projections", name="list", help="List read models and how far behind each is.")
    projection.command(f"{home}:rebuild", name="rebuild", help="Make a read model anew beside the one that is read.")
    projection.command(f"{home}:retry", name="retry", help="Let a read model that stands still go on.")
    app.command(projection)
    report = App(name="report", help="Tables, files and pictures of what runs have done.")
    for name, about in REPORTS.items():
        report.command(f"ductor.cli.report:{name}", name=name, help=about)
    app.command(report)
    return app


def _version() -> str:
    from importlib.metadata import version

    return version("ductor-engine")


def run(arguments: Sequence[str]) -> int:
    """Run a command line and give its exit code. Defects of ductor itself raise."""
    as_json = _wants_json(arguments)
    try:
        code = make_app()(list(arguments), exit_on_error=False, print_error=False)
    except (CycloptsError, DuctorError) as error:
        return report_failure(error, as_json=as_json)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # whoever read the output has seen enough; what is still buffered must not fail once more at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else EXIT_USAGE
    return code if isinstance(code, int) else EXIT_OK


def main() -> None:
    """The console script."""
    # as an interruption from the keyboard does: what the command holds is let go, an embedded server above all
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(EXIT_TERMINATED))
    sys.exit(run(sys.argv[1:]))


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether errors are wanted as JSON, as far as that can be told of a command line that may be wrong."""
    given = list(arguments)
    for option, value in zip(given, [*given[1:], ""], strict=True):
        if option in ("-o", "--output") and value in ("json", "jsonl"):
            return True
        if option in ("-o=json", "-o=jsonl", "--output=json", "--output=jsonl", "-ojson", "-ojsonl"):
            return True
    return False
