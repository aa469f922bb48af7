"""The library's functions of text."""

import re

from ductor.definitions.expressions.budget import Meter
from ductor.definitions.expressions.canonical import canonical_text
from ductor.definitions.expressions.cel_values import Duration, Timestamp, Uint, Value, to_json
from ductor.definitions.expressions.errors import Fault
from ductor.definitions.expressions.functions.declared import Function
from ductor.definitions.expressions.functions.patterns import search
from ductor.definitions.expressions.functions.standard import to_string
from ductor.definitions.expressions.operators import no_overload

UNITS_PER_JSON_VALUE = 10
"""What it costs to write one value as canonical JSON."""
MAX_PRECISION = 20
"""Decimals that `format` writes."""


def text_argument(name: str, meter: Meter, value: Value) -> str:
    """A text, its cost charged."""
    if type(value) is not str:
        return no_overload(f"{name}()", value)
    meter.charge_text(len(value))
    return value


def integer_argument(name: str, value: Value, least: int) -> int:
    """An integer that is not below `least`."""
    if type(value) not in (int, Uint):
        no_overload(f"{name}()", value)
    if value < least:
        raise Fault("invalid_argument", f"{name}() takes a number from {least} on, not {value}")
    return int(value)


def as_text(meter: Meter, value: Value) -> str:
    """A value as a part of a text: texts as they are, null as nothing, all else as canonical JSON."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    if type(value) in (Timestamp, Duration, bytes):
        return to_string(meter, value)
    return json_text(meter, value)


def json_text(meter: Meter, value: Value) -> str:
    """The canonical JSON of a value."""
    cost = Meter(meter.cost // UNITS_PER_JSON_VALUE)
    left = cost.cost
    plain = to_json(value, cost)
    meter.charge(UNITS_PER_JSON_VALUE * (1 + left - cost.cost))
    text = canonical_text(plain)
    meter.make_text(len(text))
    return text


def split(meter: Meter, text: Value, separator: Value, limit: Value = -1) -> list[Value]:
    """The parts of a text between separators, at most `limit` of them; an empty separator gives the characters."""
    whole, mark = text_argument("split", meter, text), text_argument("split", meter, separator)
    most = integer_argument("split", limit, -1)
    if most == 0:
        return []
    meter.make_list((whole.count(mark) if mark else len(whole)) + 1 if most < 0 else min(most, len(whole) + 1))
    if mark:
        return list(whole.split(mark, most - 1 if most > 0 else -1))
    return list(whole) if most < 0 or most >= len(whole) else [*whole[: most - 1], whole[most - 1 :]]


def join(meter: Meter, items: Value, separator: Value = "") -> str:
    """The items of a list as one text."""
    if type(items) is not list:
        no_overload("join()", items)
    mark = text_argument("join", meter, separator)
    meter.charge(len(items))
    texts = [as_text(meter, item) for item in items]
    meter.make_text(sum(map(len, texts)) + len(mark) * len(texts))
    return mark.join(texts)


def replace(meter: Meter, text: Value, old: Value, new: Value, limit: Value = -1) -> str:
    """The text with `old` replaced by `new`, at most `limit` times."""
    whole, before = text_argument("replace", meter, text), text_argument("replace", meter, old)
    after = text_argument("replace", meter, new)
    most = integer_argument("replace", limit, -1)
    count = whole.count(before) if most < 0 else min(most, whole.count(before))
    meter.make_text(len(whole) + count * (len(after) - len(before)))
    return whole.replace(before, after, most)


def trim(meter: Meter, text: Value) -> str:
    """The text without blanks at its ends."""
    return text_argument("trim", meter, text).strip()


def lower(meter: Meter, text: Value) -> str:
    """The text in lower case."""
    return text_argument("lower", meter, text).lower()


def upper(meter: Meter, text: Value) -> str:
    """The text in upper case."""
    return text_argument("upper", meter, text).upper()


def regex_extract(meter: Meter, text: Value, pattern: Value, group: Value = None) -> str | None:
    """What an RE2 pattern finds first: its first group if it has one, else the whole match; null if nothing."""
    whole, expression = text_argument("regex_extract", meter, text), text_argument("regex_extract", meter, pattern)
    match = search(meter, whole, expression)
    number = None if group is None else integer_argument("regex_extract", group, 0)
    if match is None:
        return None
    groups = match.re.groups
    if number is None:
        number = min(groups, 1)
    if number > groups:
        raise Fault("invalid_argument", f"the pattern {expression!r} has {groups} groups, not {number}")
    return match.group(number)


_DIRECTIVE = re.compile(r"%(?:\.([0-9]{1,3}))?(.?)", re.DOTALL)


def format_text(meter: Meter, form: Value, arguments: Value) -> str:
    """The text with `%s %d %f %e %x %X %o %b` replaced by the items of a list, in order; `%%` is a percent sign."""
    pattern = text_argument("format", meter, form)
    if type(arguments) is not list:
        no_overload("format()", form, arguments)
    remaining = iter(arguments)

    def replaced(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        for argument in remaining:
            return _directive(meter, match, argument)
        raise Fault("invalid_argument", f"format() has fewer values than directives; {match[0]!r} finds none")

    parts = []
    position = length = 0
    for match in _DIRECTIVE.finditer(pattern):
        parts += [pattern[position : match.start()], replaced(match)]
        length += len(parts[-1])
        meter.make_text(length)
        position = match.end()
    if next(remaining, meter) is not meter:
        raise Fault("invalid_argument", "format() has more values than directives")
    return "".join(parts) + pattern[position:]


def _directive(meter: Meter, match: re.Match[str], argument: Value) -> str:
    code, kind = match[2], type(argument)
    precision = int(match[1]) if match[1] else 6
    if precision > MAX_PRECISION:
        raise Fault("invalid_argument", f"format() writes at most {MAX_PRECISION} decimals, not {precision}")
    if code == "s":
        return "null" if argument is None else as_text(meter, argument)
    if code and code in "doxXb" and kind in (int, Uint):
        return format(int(argument), code)
    if code in ("f", "e") and kind in (int, Uint, float):
        return format(float(argument), f".{precision}{code}")
    if code and code in "dfeoxXb":
        no_overload(f"%{code} of format()", argument)
    raise Fault("invalid_argument", f"format() has no directive {match[0]!r}; it has %s %d %f %e %x %X %o %b and %%")


TEXT_FUNCTIONS = (
    Function(name="split", implementation=split, least=2, most=3),
    Function(name="join", implementation=join, least=1, most=2),
    Function(name="replace", implementation=replace, least=3, most=4),
    Function(name="trim", implementation=trim, least=1, most=1),
    Function(name="lower", implementation=lower, least=1, most=1),
    Function(name="upper", implementation=upper, least=1, most=1),
    Function(name="format", implementation=format_text, least=2, most=2),
    Function(name="regex_extract", implementation=regex_extract, least=2, most=3),
)
