"""From the JSON input of an attempt to the arguments of its handler, by the handler's annotations.

The rules:
1. A parameter annotated `TaskContext` gets the context.
2. The other parameters are filled by name from the input, an object. Keys that no parameter has are refused, unless the
   handler takes `**names`. A parameter with a default may be missing. Without any parameters the input is `{}` or null.
3. A handler whose only parameter is of a class with fields of its own (msgspec struct, dataclass, attrs class, TypedDict,
   or a union of such) gets the whole input, converted to it. If the input has exactly one key, named as the parameter
   and not as a field, it is filled by name.
4. A handler whose only parameter is named `input` gets the whole input, whatever its type. So does a handler with one
   parameter when the input is no object.

Conversion is msgspec's, strict: no text becomes a number, but text becomes a datetime, Decimal, UUID, bytes (base64) or
enum where the annotation says so. A parameter without annotation takes any JSON. Every argument is a copy: what a
handler does to it, nobody else sees.
"""

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from ductor.actors.context import TaskContext
from ductor.actors.errors import InvalidInputError, InvalidTaskError
from ductor.definitions.values import JsonValue

WHOLE_INPUT_NAME = "input"

_encode = msgspec.json.Encoder().encode
_astuple = msgspec.structs.astuple
_UNSET = msgspec.UNSET
_FIELD_REASON = re.compile(r"^Object (?:missing required|contains unknown) field `(?P<field>.*?)`")
_AT = " - at `"


class InputBinding:
    """How one handler gets its arguments; see the module's docstring. `wants_context` says whether a context is used."""

    def __init__(self, task: str, handler: Callable[..., Any]) -> None:
        """Read the signature. Raises InvalidTaskError for one that no input can fill."""
        self._task, self._handler = task, handler
        parameters = _parameters(task, handler)
        context_names = [name for name, parameter in parameters.items() if parameter.annotation is TaskContext]
        if len(context_names) > 1:
            raise InvalidTaskError(task, context_names[1], "there is one context, and another parameter has it already")
        self._context_name = context_names[0] if context_names else None
        self.wants_context = bool(context_names)
        self._rest: msgspec.json.Decoder[Any] | None = None
        self._rest_name = ""
        for name, parameter in parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                self._rest_name, self._rest = name, _decoder(task, name, dict[str, parameter.annotation])  # type: ignore[name-defined]
        self._fields = {
            name: parameter
            for name, parameter in parameters.items()
            if name not in (self._context_name, self._rest_name)
        }
        self._decoder = _decoder(task, "", self._struct())
        self._names = tuple(self._fields)
        self._is_positional = not self.wants_context and self._rest is None and self._all_plain()
        self._whole = self._whole_decoder()
        self._takes_whole_always = self._names == (WHOLE_INPUT_NAME,)

    def call(self, value: JsonValue, context: TaskContext | None) -> Any:
        """Call the handler. Raises InvalidInputError, and whatever the handler raises."""
        if self._is_positional and self._whole is None:
            try:
                arguments = _astuple(self._decoder.decode(_encode(value)))
            except msgspec.ValidationError as error:
                arguments = self._retried(value, error)
            return self._handler(*arguments)
        return self._handler(**self.arguments(value, context))

    def arguments(self, value: JsonValue, context: TaskContext | None) -> dict[str, Any]:
        """The arguments by name. Raises InvalidInputError."""
        arguments = self._whole_argument(value)
        if arguments is None:
            arguments = self._named_arguments(value)
        if self._context_name is not None:
            arguments[self._context_name] = context
        return arguments

    def _retried(self, value: JsonValue, error: msgspec.ValidationError) -> tuple[Any, ...]:
        """What the fast path refused may be null for a handler without parameters, or a whole input (rule 4)."""
        arguments = self._whole_argument(value)
        if arguments is not None:
            return tuple(arguments.values())
        if value is None and not self._names:
            return ()
        raise _invalid_input(self._task, error) from None

    def _whole_argument(self, value: JsonValue) -> dict[str, Any] | None:
        if len(self._names) != 1 or self._rest is not None:
            return None
        name = self._names[0]
        is_object = isinstance(value, dict)
        if is_object and not self._takes_whole_always:
            if self._whole is None or (value.keys() == {name} and name not in self._whole_fields):
                return None
        decoder = self._whole if self._whole is not None else self._one
        try:
            return {name: decoder.decode(_encode(value))}
        except msgspec.ValidationError as error:
            raise _invalid_input(self._task, error) from None

    def _named_arguments(self, value: JsonValue) -> dict[str, Any]:
        rest: dict[str, Any] = {}
        if value is None:
            value = {}
        try:
            if self._rest is not None and isinstance(value, dict):
                others = {key: item for key, item in value.items() if key not in self._fields}
                rest = self._rest.decode(_encode(others))
                value = {key: item for key, item in value.items() if key in self._fields}
            filled = _astuple(self._decoder.decode(_encode(value)))
        except msgspec.ValidationError as error:
            raise _invalid_input(self._task, error) from None
        if self._context_name in rest:
            raise InvalidInputError(self._task, self._context_name or "", "this name belongs to the context")
        rest.update((name, item) for name, item in zip(self._names, filled, strict=True) if item is not _UNSET)
        return rest

    def _struct(self) -> type[msgspec.Struct]:
        fields: list[Any] = []
        for name, parameter in self._fields.items():
            if parameter.default is parameter.empty:
                fields.append((name, parameter.annotation))
            else:  # Python itself fills in the default
                fields.append((name, Union[parameter.annotation, msgspec.UnsetType], _UNSET))  # noqa: UP007
        return msgspec.defstruct("Input", fields, kw_only=True, forbid_unknown_fields=True)

    def _all_plain(self) -> bool:
        return all(
            parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.default is parameter.empty
            for parameter in self._fields.values()
        )
