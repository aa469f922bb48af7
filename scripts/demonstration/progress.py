"""Shows how a run gets on, one line for each change of a step, as its journal tells."""

import time

from rich.console import Console

import ductor

_STYLES = {"succeeded": "green", "failed": "red", "running": "yellow", "waiting": "magenta", "skipped": "dim"}


class Progress:
    """Looks at a run and prints what has changed since the last look."""

    def __init__(self, console: Console, run: ductor.RunHandle) -> None:
        self._console, self._run = console, run
        self._began = time.monotonic()
        self._shown: dict[str, str] = {}

    async def show(self) -> ductor.RunView:
        """Look once."""
        view = await self._run.status()
        for step in view.steps:
            state = _state(step)
            if state and self._shown.get(step.ref) != state:
                self._shown[step.ref] = state
                seconds = time.monotonic() - self._began
                style = _STYLES.get(step.status, "default")
                self._console.print(f"  {seconds:5.1f} s  {step.ref:<13}[{style}]{state}[/]")
        return view


def _state(step: ductor.StepView) -> str:
    """A step's state in words; empty while nothing has happened to it."""
    if step.status == "pending":
        return ""
    if step.waiting:
        error = f" after {step.error.type}" if step.error else ""
        return f"waiting ({step.waiting}{error})"
    if step.status == "running":
        return f"running, attempt {step.attempts}"
    return step.status
