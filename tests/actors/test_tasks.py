"""Tasks: declaration and registry."""

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from ductor.actors.context import TaskContext
from ductor.actors.errors import DuplicateTaskError, InvalidTaskError
from ductor.actors.tasks import Task, TaskRegistry, task


def test_a_task_has_the_name_given_or_the_functions_own():
    @task("inventory.reserve")
    def reserve(sku: str) -> str:
        """Reserves."""
        return sku

    @task
    async def release(sku: str) -> str:
        return sku

    assert (reserve.name, reserve.is_async, reserve.__doc__) == ("inventory.reserve", False, "Reserves.")
    assert (release.name, release.is_async) == ("release", True)
    assert reserve("a") == "a"
    assert asyncio.run(release("b")) == "b"


def test_callable_objects_and_partials_can_be_tasks():
    class Reserve:
        async def __call__(self, sku: str) -> str:
            return sku

    async def add(amount: int, to: int) -> int:
        return amount + to

    assert Task("reserve", Reserve()).is_async
    assert Task("reserve", Reserve()).binding.arguments({"sku": "a"}, None) == {"sku": "a"}
    add_to_five = Task("add", functools.partial(add, to=5))
    assert add_to_five.is_async
    assert asyncio.run(add_to_five.invoke({"amount": 2}, None)) == 7


@pytest.mark.parametrize("name", ["", "two words", "line\nbreak"])
def test_names_that_no_step_can_use_are_refused(name: str):
    with pytest.raises(InvalidTaskError):
        task(name)(lambda: None)


def test_what_has_no_result_is_refused():
    def generator() -> Iterator[int]:
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    for handler in (generator, async_generator):
        with pytest.raises(InvalidTaskError, match="generator"):
            task("x")(handler)
    with pytest.raises(InvalidTaskError, match="can't be called"):
        Task("x", 5)  # type: ignore[arg-type]


def positional_only(sku: str, /) -> None: ...


def positional_or_not(sku: str) -> None: ...


def variadic(*skus: str) -> None: ...


def unknown_class(order: list[TaskRegistry]) -> None: ...


def unresolved(order: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def two_contexts(one: TaskContext, two: TaskContext) -> None: ...


def optional_context(context: TaskContext | None) -> None: ...


@pytest.mark.parametrize(
    ("handler", "parameter"),
    [
        (positional_only, "sku"),
        (variadic, "skus"),
        (unknown_class, "order"),
        (unresolved, ""),
        (two_contexts, "two"),
        (optional_context, "context"),
    ],
)
def test_signatures_that_no_input_fills_are_refused_at_registration(handler: Any, parameter: str):
    with pytest.raises(InvalidTaskError) as caught:
        TaskRegistry([task("reserve")(handler)])
    assert (caught.value.task, caught.value.parameter) == ("reserve", parameter)


def test_annotations_may_name_what_is_defined_later():
    handler = task("late")(lambda order: order)
    handler.handler.__annotations__["order"] = "DefinedLater"
    globals()["DefinedLater"] = int
    try:
        assert TaskRegistry([handler]).get("late") is handler
    finally:
        del globals()["DefinedLater"]


def test_the_registry_finds_tasks_by_name_and_tells_of_new_ones():
    one, two = Task("one", positional_or_not), Task("two", positional_or_not)
    registry = TaskRegistry([two])
    heard: list[str] = []
    stop_listening = registry.on_register(lambda new: heard.append(new.name))
    registry.register(one)
    registry.register(one)
    assert heard == ["one"]
    stop_listening()
    stop_listening()
    registry.register(Task("zero", positional_or_not))
    assert heard == ["one"]
    assert registry.names == ("one", "two", "zero")
    assert registry.get("one") is one
    assert registry.get("three") is None
    assert "two" in registry
    assert len(registry) == 3
    assert {one, two} < set(registry)


def test_two_handlers_of_one_name_are_refused():
    registry = TaskRegistry([Task("one", positional_or_not)])
    with pytest.raises(DuplicateTaskError) as caught:
        registry.register(Task("one", positional_only))
    assert caught.value.task == "one"
    assert caught.value.handlers[1].endswith("positional_only")
