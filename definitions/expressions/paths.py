"""Pure paths such as `trigger.order.items[0].sku`: read without an engine, by all engines and by bare expressions.

The quick way takes each key from a dict or list that has it. Whatever is out of the ordinary (a missing key, null, a
wrong type) is walked again in the slow way, which is the operators' own and words the error.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ductor.definitions.expressions.activation import STEPS, Activation
from ductor.definitions.expressions.cel_values import Value
from ductor.definitions.expressions.errors import Fault
from ductor.definitions.expressions.operators import index

Reader: TypeAlias = Callable[[Activation], Value]


def path_reader(name: str, keys: tuple[str | int, ...]) -> Reader:
    """What reads the path from an activation; it raises `Fault` where the path leads nowhere."""
    if name == STEPS and keys and isinstance(keys[0], str):
        return _step_reader(keys[0], keys[1:])
    if not keys:
        return _whole_steps if name == STEPS else _variable_reader(name)
    if len(keys) == 1 and isinstance(keys[0], str):
        return _field_reader(name, keys[0])
    return _deep_reader(name, keys)


def _variable_reader(name: str) -> Reader:
    def read(activation: Activation) -> Value:
        try:
            return activation.lookup(name)
        except KeyError:
            raise _unbound(name) from None

    return read


def _field_reader(name: str, field: str) -> Reader:
    """The path `name.field`, the most frequent of all."""

    def read(activation: Activation) -> Value:
        try:
            return activation.lookup(name)[field]  # type: ignore[index, call-overload]
        except (KeyError, IndexError, TypeError):
            return _walk(_variable_reader(name)(activation), (field,))

    return read


def _deep_reader(name: str, keys: tuple[str | int, ...]) -> Reader:
    def read(activation: Activation) -> Value:
        try:
            return _take(activation.lookup(name), keys)
        except (KeyError, IndexError, TypeError):
            return _walk(_variable_reader(name)(activation), keys)

    return read


def _step_reader(ref: str, keys: tuple[str | int, ...]) -> Reader:
    def read(activation: Activation) -> Value:
        try:
            step = activation.step(ref)
        except (KeyError, TypeError):
            return _walk(_whole_steps(activation), (ref, *keys))
        if not keys:
            return _plain(step)
        try:
            return _take(step, keys)
        except (KeyError, IndexError, TypeError):
            return _walk(_plain(step), keys)

    return read


def _whole_steps(activation: Activation) -> Value:
    steps = _variable_reader(STEPS)(activation)
    return {ref: _plain(step) for ref, step in steps.items()} if isinstance(steps, Mapping) else steps


def _plain(step: Value) -> Value:
    """A step as a value: its fields may have been a view that converts them when they are read."""
    return dict(step) if isinstance(step, Mapping) else step


def _take(value: Value, keys: tuple[str | int, ...]) -> Value:
    for key in keys:
        if type(key) is int and type(value) is not list:
            raise TypeError
        value = value[key]
    return value


def _walk(value: Value, keys: tuple[str | int, ...]) -> Value:
    for key in keys:
        value = index(value, key)
    return value


def _unbound(name: str) -> Fault:
    return Fault("unbound_variable", f"the variable {name!r} has no value here")
