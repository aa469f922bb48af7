"""Keys under which the places of a document are kept beside its manifest.

A manifest holds steps in Kahn order and without sugar, so an index of the document means nothing there. Places are
therefore kept by ref: `steps.reserve.input`, `steps.review.next.true[0][1]`, `output`.
"""

from ductor.definitions.model import Edge


def field_key(ref: str, path: str) -> str:
    """The key of a field of a step; `path` as in `CompiledField.path`."""
    return f"steps.{ref}.{path}" if path else f"steps.{ref}"


def choice_key(edge: Edge) -> str:
    """The key of the condition of a choice, or of a plain edge."""
    if edge.group is None:
        return f"steps.{edge.source}.next.{edge.outcome}.{edge.to}"
    return f"steps.{edge.source}.next.{edge.outcome}[{edge.group}][{edge.order}]"
