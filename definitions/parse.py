"""Text into definitions, or every problem of the text at once.

`parse_text` reads YAML or JSON, `parse_document` a document made of Python values. Both give drafts: a definition in
normal form together with where everything stands and what could not be read. A step with an unreadable field is kept in
mind (`broken`, `unsound`), so that the checks of the whole graph don't complain about what is merely misspelt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from ductor.definitions.documents.json_reader import read_json
from ductor.definitions.documents.nodes import Node
from ductor.definitions.documents.places import DocumentPlaces
from ductor.definitions.documents.python_reader import read_python
from ductor.definitions.documents.report import ProblemList, Report, in_document_order
from ductor.definitions.documents.yaml_reader import read_yaml
from ductor.definitions.errors import DefinitionError, Problem
from ductor.definitions.limits import DEFAULT_LIMITS, Limits
from ductor.definitions.model import Definition
from ductor.definitions.parsing.steps import StepsReader
from ductor.definitions.parsing.struct_shapes import StructShape, struct_shape

TextFormat: TypeAlias = Literal["yaml", "json"]

STEP_KEYS: Final = frozenset({"steps", "defer", "defaults"})
"""Keys of a definition that hold steps or defaults for them."""

_DERIVED: Final = frozenset({"steps", "defer", "edges", "bodies", "entrypoints"})


@dataclass(slots=True)
class Draft:
    """What a document says, as far as it could be read.

    Attributes:
        definition: None when the document lacks what a definition can't do without.
        places: where things stand.
        broken: steps that could not be read, by ref, with their type where that is known.
        unsound: refs of steps some field of which could not be read.
    """

    definition: Definition | None
    places: DocumentPlaces
    broken: dict[str, str | None] = field(default_factory=dict)
    unsound: set[str] = field(default_factory=set)


def parse_text(
    text: str | bytes, *, file: str = "", text_format: TextFormat | None = None, limits: Limits = DEFAULT_LIMITS
) -> list[Definition]:
    """Return the definitions of a text, in normal form, unchecked as graphs.

    Args:
        text: YAML or JSON; bytes are UTF-8.
        file: its name, for errors; one that ends in `.json` makes it JSON.
        text_format: what it is, where the name does not tell.

    Raises:
        DefinitionError: with every problem of the text.
    """
    problems = ProblemList(limits)
    drafts = read_drafts(text, problems, file=file, text_format=text_format, limits=limits)
    if problems:
        raise DefinitionError(in_document_order(problems))
    return [draft.definition for draft in drafts if draft.definition is not None]


def read_drafts(
    text: str | bytes,
    problems: list[Problem],
    *,
    file: str = "",
    text_format: TextFormat | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Draft]:
    """Return a draft for each document of a text; what is wrong is added to `problems`.

    Raises:
        DefinitionError: the text can't be read at all.
    """
    report = Report(file, problems)
    source = _decode(text, report, limits)
    chosen = text_format or ("json" if file.lower().endswith(".json") else "yaml")
    roots: list[Node] = []
    trees = (
        read_yaml(source, limits, file, problems)
        if chosen == "yaml"
        else iter([read_json(source, limits, file, problems)])
    )
    for root in trees:
        if len(roots) == limits.documents:
            report.add(
                "limit_exceeded", f"more than {limits.documents} documents (limit `documents`)", "", root.position
            )
            break
        roots.append(root)
    if not roots:
        report.add(
            "empty_document", "the text holds no definition", "", (1, 1), "Begin with `ductor: 1` and `name: ...`."
        )
    return [read_draft(root, problems, file=file, limits=limits) for root in roots]


def parse_document(
    document: Mapping[str, object], problems: list[Problem], *, limits: Limits = DEFAULT_LIMITS
) -> Draft:
    """Return the draft of a document made of Python values; what is wrong is added to `problems`.

    Raises:
        DefinitionError: it holds what is no JSON, or passes a limit.
    """
    return read_draft(read_python(document, limits, problems), problems, limits=limits)


def read_draft(root: Node, problems: list[Problem], *, file: str = "", limits: Limits = DEFAULT_LIMITS) -> Draft:
    """Return the draft of one document, given its tree; what is wrong is added to `problems`."""
    draft = Draft(None, DocumentPlaces(file, root))
    report = Report(file, problems)
    if not isinstance(root.value, dict):
        hint = "A definition is a map with `name` and `steps`."
        report.add("wrong_type", f"expected a definition, found {root.kind()}", "", root.position, hint)
        return draft
    values, _ = definition_shape().read_fields(root, "", report, STEP_KEYS)
    complete = definition_shape().report_missing(values, root, "", report)
    reader = StepsReader(report, draft.places, limits)
    reader.read_defaults(root)
    steps = reader.read_steps(root, "steps")
    defer = reader.read_steps(root, "defer")
    draft.broken, draft.unsound = reader.broken, reader.unsound
    if complete:
        draft.definition = Definition(
            **cast("dict[str, Any]", values),
            steps=tuple(steps),
            defer=tuple(defer),
            edges=tuple(reader.edges),
            bodies=reader.bodies,
        )
    return draft


def definition_shape() -> StructShape:
    """The shape of a definition, but for its steps."""
    return struct_shape(Definition, without=_DERIVED)


def _decode(text: str | bytes, report: Report, limits: Limits) -> str:
    """The text itself, without a byte order mark."""
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    if len(data) > limits.document_bytes:
        message = f"the file has {len(data):,} bytes, more than {limits.document_bytes:,} (limit `document_bytes`)"
        report.add("limit_exceeded", message, "", (1, 1))
        raise DefinitionError(report.problems)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        position = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        report.add("invalid_utf8", f"the byte 0x{data[error.start]:02x} is not UTF-8", "", position)
        raise DefinitionError(report.problems) from error
