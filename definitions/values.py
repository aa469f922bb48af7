"""The type of every value that crosses ductor: plain JSON.

`JsonValue` is precise for the type checker. At run time it is `Any`, because msgspec does not build decoders for
recursive unions; the border that lets values in (`ductor.journal.codec`) checks them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeAlias

    JsonValue: TypeAlias = "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]"
    JsonObject: TypeAlias = "dict[str, JsonValue]"
else:
    JsonValue = Any
    JsonObject = dict[str, Any]

__all__ = ["JsonObject", "JsonValue"]
