"""Handlers: the user's functions that steps of type `task` run, and the registry that finds them by name."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar, overload

from ductor.actors.context import TaskContext
from ductor.actors.errors import DuplicateTaskError, InvalidTaskError
from ductor.actors.task_input import InputBinding
from ductor.definitions.values import JsonValue

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A handler with its name. Calling it calls the handler, so that tests of the handler need nothing else.

    Attributes:
        name: what steps call it.
        handler: the function.
        is_async: whether it is a coroutine function, and runs on the loop; others run in threads.
    """

    def __init__(self, name: str, handler: Callable[P, R]) -> None:
        """Raises InvalidTaskError for a name with blanks, or something that is no function."""
        if not name or any(character.isspace() for character in name):
            raise InvalidTaskError(name, "", "a task's name is not empty and has no blanks")
        called = _called(name, handler)
        if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
            raise InvalidTaskError(name, "", "a generator has no result; collect what it yields and return that")
        functools.update_wrapper(self, handler, updated=())
        self.name, self.handler = name, handler
        self.is_async = inspect.iscoroutinefunction(called)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name!r}: {self.location}>"

    @property
    def location(self) -> str:
        """Module and name of the handler."""
        return f"{getattr(self.handler, '__module__', '?')}.{getattr(self.handler, '__qualname__', repr(self.handler))}"

    @functools.cached_property
    def binding(self) -> InputBinding:
        """How the input becomes arguments. Read late: annotations may name what a module defines further down.

        Raises:
            InvalidTaskError: the signature is one that no input can fill.
        """
        return InputBinding(self.name, self.handler)

    def invoke(self, value: JsonValue, context: TaskContext | None) -> Any:
        """Call the handler with an attempt's input: its result, or a coroutine that gives it.

        Raises:
            InvalidInputError: the input does not fit.
        """
        return self.handler(**self.binding.arguments(value, context))  # type: ignore[call-arg]


def _called(name: str, handler: Any) -> object:
    """What a call of the handler runs: itself, or the method of a callable object."""
    if not callable(handler):
        raise InvalidTaskError(name, "", f"a {type(handler).__name__} can't be called")
    return handler if inspect.isroutine(handler) or isinstance(handler, functools.partial) else handler.__call__


@overload
def task(handler: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(name: str, /) -> Callable[[Callable[P, R]], Task[P, R]]: ...


def task(name: str | Callable[P, R], /) -> Task[P, R] | Callable[[Callable[P, R]], Task[P, R]]:
    """Make a function a task: `@task("inventory.reserve")`, or bare `@task`, which takes the function's own name.

    How the input of a step becomes arguments is told in `ductor.actors.task_input`, how the result becomes JSON in
    `ductor.actors.task_output`. A coroutine function runs on the event loop, an ordinary one in a thread.

    Raises:
        InvalidTaskError: the name has blanks, or the handler can't be one.
    """
    if isinstance(name, str):
        return functools.partial(Task, name)
    return Task(getattr(name, "__name__", ""), name)


class TaskRegistry:
    """The tasks that a host can run, by name."""

    def __init__(self, tasks: Iterable[Task[..., Any]] = ()) -> None:
        """Raises what `register` raises."""
        self._tasks: dict[str, Task[..., Any]] = {}
        self._listeners: list[Callable[[Task[..., Any]], None]] = []
        for one in tasks:
            self.register(one)

    def register(self, task: Task[..., Any]) -> None:
        """Add a task; adding it twice changes nothing.

        Raises:
            DuplicateTaskError: another handler has this name.
            InvalidTaskError: the handler's signature is one that no input can fill.
        """
        known = self._tasks.get(task.name)
        if known is not None:
            if known.handler is not task.handler:
                raise DuplicateTaskError(task.name, (known.location, task.location))
            return
        task.binding  # noqa: B018 - reads the signature, so that a wrong one is found now
        self._tasks[task.name] = task
        for listener in self._listeners:
            listener(task)

    def get(self, name: str) -> Task[..., Any] | None:
        """The task of this name."""
        return self._tasks.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._tasks))

    def on_register(self, listener: Callable[[Task[..., Any]], None]) -> Callable[[], None]:
        """Have `listener` called with every task that is added, until what is returned is called."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def __contains__(self, name: str) -> bool:
        return name in self._tasks

    def __iter__(self) -> Iterator[Task[..., Any]]:
        return iter(tuple(self._tasks.values()))

    def __len__(self) -> int:
        return len(self._tasks)
