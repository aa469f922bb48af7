"""From the JSON input of an attempt to the arguments of its handler, by the handler's annotations.

The rules:
1. A parameter annotated `TaskContext` gets the context.
2. The other parameters are filled by name from the input, an object. Keys that no parameter has are refused, unless the
   handler takes `**names`. A parameter with a default may be missing. Without any parameters the input is `{}` or null.
3. A handler whose only parameter is of a class with fields of its own (msgspec struct, dataclass, attrs class,
   TypedDict, or a union of such) gets the whole input, converted to it. If the input has exactly one key, named as the
   parameter and not as a field, it is filled by name.
4. A handler whose only parameter is named `input` gets the whole input, whatever its type. So does a handler with one
   parameter when the input is no object.
5. With a default for the only parameter, an empty input object means the default.

Conversion is msgspec's, strict: no text becomes a number, but text becomes a datetime, Decimal, UUID, bytes (base64) or
enum where the annotation says so. A parameter without annotation takes any JSON. Every argument is a copy: what a
handler does to it, nobody else sees.
"""

import dataclasses
import functools
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
_asdict = msgspec.structs.asdict
_UNSET = msgspec.UNSET
_EMPTY = inspect.Parameter.empty
_FIELD_AT_FAULT = re.compile(r"^Object (?:missing required|contains unknown) field `(.*?)`")
_AT = " - at `"


class InputBinding:
    """How one handler gets its arguments. See the module's docstring.

    Attributes:
        wants_context: whether a parameter is there for the context.
    """

    def __init__(self, task: str, handler: Callable[..., Any]) -> None:
        """Read the signature. Raises InvalidTaskError for one that no input can fill."""
        self._task = task
        self._context_name: str | None = None
        self._rest: msgspec.json.Decoder[dict[str, Any]] | None = None
        fields: dict[str, inspect.Parameter] = {}
        for name, parameter in _parameters(task, handler).items():
            if parameter.annotation is TaskContext:
                if self._context_name is not None:
                    raise InvalidTaskError(task, name, f"parameter `{self._context_name}` has the context already")
                self._context_name = name
            elif parameter.kind is parameter.VAR_KEYWORD:
                self._rest = _decoder(types.GenericAlias(dict, (str, parameter.annotation)))
            else:
                fields[name] = parameter
        self.wants_context = self._context_name is not None
        self._names = tuple(fields)
        self._has_defaults = any(parameter.default is not _EMPTY for parameter in fields.values())
        self._decoder = _decoder(_input_struct(fields))
        self._is_plain = len(fields) > 1 and self._rest is None and not self._has_defaults
        self._only = self._names[0] if len(fields) == 1 and self._rest is None else None
        if self._only is not None:
            annotation = fields[self._only].annotation
            self._whole, self._whole_fields = _decoder(annotation), _field_names(annotation)

    def arguments(self, value: JsonValue, context: TaskContext | None) -> dict[str, Any]:
        """The handler's arguments by name. Raises InvalidInputError."""
        try:
            if self._is_plain and type(value) is dict:
                found: dict[str, Any] = _asdict(self._decoder.decode(_encode(value)))
            elif self._only is not None and self._takes_whole(value):
                found = {self._only: self._whole.decode(_encode(value))}
            elif self._rest is not None and isinstance(value, dict):
                found = self._with_rest(value, self._rest)
            else:
                found = self._by_name({} if value is None else value)
        except msgspec.ValidationError as error:
            raise _invalid_input(self._task, str(error)) from None
        if self._context_name is not None:
            found[self._context_name] = context
        return found

    def _takes_whole(self, value: JsonValue) -> bool:
        if not isinstance(value, dict):
            return True
        if not value and self._has_defaults:
            return False
        if self._only == WHOLE_INPUT_NAME:
            return True
        return self._whole_fields is not None and (
            len(value) != 1 or self._only not in value or self._only in self._whole_fields
        )

    def _by_name(self, value: JsonValue) -> dict[str, Any]:
        found = _asdict(self._decoder.decode(_encode(value)))
        if self._has_defaults:
            return {name: item for name, item in found.items() if item is not _UNSET}
        return found

    def _with_rest(self, value: Mapping[str, JsonValue], rest: msgspec.json.Decoder[dict[str, Any]]) -> dict[str, Any]:
        others = {name: item for name, item in value.items() if name not in self._names}
        if self._context_name in others:
            raise InvalidInputError(self._task, self._context_name or "", "this name belongs to the handler's context")
        found = self._by_name({name: item for name, item in value.items() if name in self._names})
        found.update(rest.decode(_encode(others)))
        return found


def _parameters(task: str, handler: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The handler's parameters with their annotations resolved. Raises InvalidTaskError."""
    try:
        signature = inspect.signature(handler)
        hints = typing.get_type_hints(_function_of(handler), include_extras=True)
    except (TypeError, ValueError) as error:
        raise InvalidTaskError(task, "", f"its signature can't be read: {error}") from error
    except NameError as error:
        raise InvalidTaskError(
            task,
            "",
            f"an annotation can't be resolved ({error}); import its name at run time, at the top of the module",
        ) from error
    parameters = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise InvalidTaskError(
                task, name, "it can't be filled by name from the input; make it an ordinary parameter"
            )
        annotation = Any if parameter.annotation is _EMPTY else hints.get(name, parameter.annotation)
        if annotation is not TaskContext:
            _check_annotation(task, name, annotation)
        parameters[name] = parameter.replace(annotation=annotation)
    return parameters


def _function_of(handler: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose annotations describe the handler: through partials, decorators and callable objects."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    handler = inspect.unwrap(handler)
    return handler if inspect.isroutine(handler) else type(handler).__call__


def _check_annotation(task: str, name: str, annotation: Any) -> None:
    try:
        description = msgspec.inspect.type_info(annotation)
        _decoder(annotation)
    except TypeError as error:
        raise InvalidTaskError(task, name, f"no JSON can be converted to its annotation: {error}") from error
    unknown = _unknown_class(description, set())
    if unknown is not None:
        raise InvalidTaskError(
            task,
            name,
            f"no JSON can be converted to the class `{unknown.__qualname__}`; "
            "use a msgspec struct, a dataclass, a TypedDict or a type of the standard library",
        )


def _unknown_class(description: object, seen: set[int]) -> type | None:
    """The first class in a described type that msgspec does not know how to make."""
    if isinstance(description, msgspec.inspect.CustomType):
        return description.cls
    if id(description) in seen:
        return None
    seen.add(id(description))
    parts: tuple[object, ...] = ()
    if isinstance(description, tuple):
        parts = description
    elif isinstance(description, msgspec.inspect.Type | msgspec.inspect.Field):
        parts = msgspec.structs.astuple(description)
    return next((found for part in parts if (found := _unknown_class(part, seen)) is not None), None)


def _decoder(annotation: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(annotation)


def _input_struct(fields: Mapping[str, inspect.Parameter]) -> type[msgspec.Struct]:
    """A struct with the handler's parameters as fields. One with a default may be unset: Python fills it in."""
    described: list[Any] = []
    for name, parameter in fields.items():
        if parameter.default is _EMPTY:
            described.append((name, parameter.annotation))
        else:
            described.append((name, Union[parameter.annotation, msgspec.UnsetType], _UNSET))  # noqa: UP007
    return msgspec.defstruct("Input", described, kw_only=True, forbid_unknown_fields=True)


def _field_names(annotation: Any) -> frozenset[str] | None:
    """Names of the fields of a class that has some, or of all classes of a union; None for any other type."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        members = [_field_names(member) for member in get_args(annotation) if member is not type(None)]
        known = [member for member in members if member is not None]
        return frozenset().union(*known) if known and len(known) == len(members) else None
    kind = get_origin(annotation) or annotation
    if not isinstance(kind, type):
        return None
    if issubclass(kind, msgspec.Struct):
        return frozenset({*kind.__struct_encode_fields__, kind.__struct_config__.tag_field or ""})
    if dataclasses.is_dataclass(kind):
        return frozenset(field.name for field in dataclasses.fields(kind))
    if typing.is_typeddict(kind):
        return frozenset(kind.__annotations__)
    attributes = getattr(kind, "__attrs_attrs__", None)
    return None if attributes is None else frozenset(attribute.name for attribute in attributes)


def _invalid_input(task: str, text: str) -> InvalidInputError:
    """The error for what msgspec says: `Expected ... - at `$.lines[2].sku``."""
    reason, _, place = text.partition(_AT)
    path = place.rstrip("`").removeprefix("$").removeprefix(".")
    field = _FIELD_AT_FAULT.match(reason)
    if field is not None:
        path = f"{path}.{field[1]}" if path else field[1]
    return InvalidInputError(task, path, reason)
