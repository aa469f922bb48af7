"""Making the tasks of a killed process vanish, without running anything of them."""

import asyncio
import inspect
from contextlib import suppress
from typing import Any
from warnings import catch_warnings


def lose(task: "asyncio.Task[Any]") -> None:
    """Make a task of a dead process vanish.

    Closing runs `finally` blocks, which a killed process would not run: whoever calls this drops what they schedule. A
    task that has not begun holds what it was going to await; that is closed with it.
    """
    coroutine: object = task.get_coro()
    if not inspect.iscoroutine(coroutine):
        return
    with suppress(BaseException), catch_warnings(action="ignore", category=RuntimeWarning):
        if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
            for held in inspect.getcoroutinelocals(coroutine).values():
                if inspect.iscoroutine(held):
                    held.close()
        coroutine.close()
