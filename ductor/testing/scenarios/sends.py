"""What a scenario may send: exactly one thing an entry, with what belongs to it."""

import re
from collections.abc import Mapping
from typing import Any, Final

from ductor.definitions.documents.report import Report
from ductor.definitions.errors import Place
from ductor.definitions.parsing.shapes import BooleanShape, ChoiceShape, JsonShape, ListShape, TextShape
from ductor.definitions.parsing.struct_shapes import StructShape
from ductor.testing.scenarios.model import Send, SendKind
from ductor.testing.scenarios.shapes import DURATION, TEXT, BuiltShape, field

COMPANIONS: Final[dict[SendKind, tuple[str, ...]]] = {
    "signal": ("payload", "by", "request_id"),
    "event": ("payload", "request_id"),
    "approve": ("by", "comment", "groups", "request_id"),
    "reject": ("by", "comment", "groups", "request_id"),
    "reply": ("payload", "by", "request_id"),
    "case": ("by", "status", "assignee", "comment", "request_id"),
    "control": ("by", "reason", "from_steps", "input", "request_id"),
}
"""By what is sent: the fields that belong to it."""

BY_SOMEBODY: Final = ("approve", "reject", "case")
CONTROLS: Final = ("cancel", "terminate", "pause", "resume", "redrive", "compensate", "continue_as_new")

RUN_LABEL: Final = re.compile(r"\S+#[1-9]\d*")
RUN_HINT: Final = "A run is named `definition#k`: the k-th run of this definition, in order of start."

_COMPANION_KEYS: Final = {"from_steps": "from"}
_SHARED: Final = frozenset({"at_ms", "run", "refused"})


def _build(values: Mapping[str, Any], place: Place, report: Report) -> object:
    position = (place.line, place.column)
    kinds = [kind for kind in COMPANIONS if kind in values]
    if len(kinds) != 1:
        code, found = ("sends_one", " and ".join(f"`{kind}`" for kind in kinds)) if kinds else ("nothing_sent", "none")
        message = f"an entry sends exactly one thing, found {found}"
        return report.add(code, message, place.path, position, f"Valid: {', '.join(COMPANIONS)}.")
    (kind,) = kinds
    given = {key: value for key, value in values.items() if key != kind}
    if "id" in given:
        if kind != "event":
            return report.add("misplaced_key", "`id` belongs to `event`", place.path, position, "Use `request_id`.")
        given["request_id"] = given.pop("id")
    for key in given:
        if key not in COMPANIONS[kind] and key not in _SHARED:
            message = f"`{_COMPANION_KEYS.get(key, key)}` does not belong to `{kind}`"
            return report.add("misplaced_key", message, place.path, position)
    redrives = kind == "control" and values[kind] == "redrive"
    if not redrives and (needless := {"from_steps", "input"} & given.keys()):
        message = f"`{_COMPANION_KEYS.get(min(needless), 'input')}` belongs to `control: redrive`"
        return report.add("misplaced_key", message, place.path, position)
    if kind in BY_SOMEBODY and "by" not in given:
        return report.add("missing_key", f"`{kind}` needs `by`: who does it", place.path, position)
    if "run" in given and not RUN_LABEL.fullmatch(given["run"]):
        return report.add("invalid_run", f"`{given['run']}` names no run", place.path, position, RUN_HINT)
    if "run" in given and kind == "event":
        return report.add("misplaced_key", "an event goes to nobody in particular", place.path, position)
    return Send(place=place, kind=kind, name=values[kind], **given)


SEND: Final = BuiltShape(
    StructShape(
        Send,
        dict(
            [
                field("at", DURATION, attribute="at_ms", required=True),
                *(field(kind, TEXT) for kind in COMPANIONS if kind != "control"),
                field("control", ChoiceShape(CONTROLS)),
                field("payload", JsonShape()),
                field("id", TEXT),
                field("request_id", TEXT),
                field("by", TextShape()),
                field("comment", TextShape()),
                field("groups", ListShape(TEXT)),
                field("status", TEXT),
                field("assignee", TEXT),
                field("reason", TEXT),
                field("from", ListShape(TEXT), attribute="from_steps"),
                field("input", JsonShape()),
                field("run", TEXT),
                field("refused", BooleanShape()),
            ]
        ),
    ),
    _build,
)
