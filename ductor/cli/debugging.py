"""Calls a handler under Python's debugger, stopped at its first line, coroutine or not."""

import bdb
import inspect
import pdb  # noqa: T100 - the debugger is what this is for
import sys
from collections.abc import Callable
from typing import Any

from ductor.actors.tasks import Task


def debugged(task: Task[..., Any]) -> Callable[[Callable[[], Any]], Any]:
    """Calls with a breakpoint at the handler's first line. The debugger lives until the handler has ended."""

    def call(handler: Callable[[], Any]) -> Any:
        function = inspect.unwrap(getattr(task.handler, "func", task.handler))
        code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
        debugger = pdb.Pdb()
        debugger.reset()
        if code is not None:
            debugger.set_break(code.co_filename, code.co_firstlineno, funcname=code.co_name)
        debugger.botframe = sys._getframe()  # noqa: SLF001 - the frame that the debugger must not leave; as pdb does it
        debugger.set_continue()
        sys.settrace(debugger.trace_dispatch)
        return handler()

    return call


def examined(error: BaseException) -> None:
    """Look at where the handler raised. Whoever left the debugger has seen enough: SystemExit."""
    sys.settrace(None)
    if isinstance(error, bdb.BdbQuit):
        sys.exit(0)
    print(f"{type(error).__name__}: {error}")
    pdb.post_mortem(error.__traceback__)
