"""Which handlers definitions need, and where handlers come from."""

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ductor.actors.tasks import Task
from ductor.definitions.expressions import FunctionLibrary
from ductor.definitions.model import Definition
from ductor.definitions.steps import AnyStep, ScatterStep, TaskStep
from ductor.errors import FunctionsNotLoadedError, TasksNotLoadedError


def needed_handlers(definition: Definition) -> frozenset[str]:
    """The handlers that runs of a definition may call; computed names by their allow-list."""
    steps: list[AnyStep] = [*definition.steps, *definition.defer]
    for body in definition.bodies.values():
        steps.extend(body.steps)
    steps.extend(step.do for step in steps if isinstance(step, ScatterStep) and step.do is not None)
    names: set[str] = set()
    for step in steps:
        if isinstance(step, TaskStep):
            names.update(step.tasks or (step.task,))
        if step.compensate is not None and step.compensate.task is not None:
            names.add(step.compensate.task)
    return frozenset(names)


def missing_handlers(definitions: Iterable[Definition], known: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Handlers that definitions need and nobody has, each with the definitions that need it."""
    have = frozenset(known)
    missing: dict[str, set[str]] = {}
    for definition in definitions:
        for name in needed_handlers(definition) - have:
            missing.setdefault(name, set()).add(definition.name)
    return {name: tuple(sorted(users)) for name, users in sorted(missing.items())}


def load_tasks(sources: Iterable[str]) -> list[Task[..., Any]]:
    """Import handlers: `module` gives every task in it, `module:attribute` one task, a list of tasks or a registry.

    Raises:
        TasksNotLoadedError: there is no such module or attribute, importing it raises, or it holds no task.
    """
    _import_from_here()
    return [task for source in sources for task in _tasks_from(source)]


def load_functions(source: str) -> FunctionLibrary:
    """Import the functions that expressions may call: `module:attribute` names the library.

    Raises:
        FunctionsNotLoadedError: there is no such module or attribute, importing it raises, or it is something else.
    """
    _import_from_here()
    module_name, _, attribute = source.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:
        raise FunctionsNotLoadedError(source, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, FunctionLibrary):
        raise FunctionsNotLoadedError(source, f"it is a {type(found).__name__}")
    return found


def _import_from_here() -> None:
    """Modules of the working directory can be named, as `python -m` allows."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _tasks_from(source: str) -> list[Task[..., Any]]:
    module_name, _, attribute = source.partition(":")
    try:
        found: object = importlib.import_module(module_name)
    except Exception as error:
        raise TasksNotLoadedError(source, f"{type(error).__name__}: {error}") from error
    if attribute:
        if not hasattr(found, attribute):
            raise TasksNotLoadedError(source, f"module {module_name!r} has no attribute {attribute!r}")
        found = getattr(found, attribute)
        candidates = [found] if isinstance(found, Task) or not isinstance(found, Iterable) else list(found)
    else:
        candidates = list(vars(found).values())
    tasks = [one for one in candidates if isinstance(one, Task)]
    if not tasks:
        raise TasksNotLoadedError(source, "it holds no function decorated with `@ductor.task`")
    return tasks
