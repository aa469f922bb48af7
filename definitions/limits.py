"""The bounds of what is accepted as a definition. Every one of them is reported with its name and its value."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on one file and on each definition in it.

    Attributes:
        document_bytes: of a file, in UTF-8.
        documents: definitions in one file.
        depth: maps and lists within each other.
        nodes: values in a file, those that aliases repeat counted as often as they are repeated.
        aliases: uses of anchors in a file.
        problems: reported at once; the one beyond ends the work.
        steps: of a definition, those of inline bodies and of `defer` included.
        edges: of a definition, those of inline bodies included.
        choice_branches: of one choice group.
        handlers: entries of `triggers` and of `on`, each.
        cancel_rest_reach: steps that the `cancel_rest` joins of a definition have before them, counted for each join.
        text_length: characters of one text.
        key_length: characters of one key.
        manifest_bytes: of the canonical JSON of one manifest.
        body_depth: inline bodies within each other.
        schema_bytes: of one JSON Schema, as canonical JSON.
    """

    document_bytes: int = 4 * 1024 * 1024
    documents: int = 1_000
    depth: int = 64
    nodes: int = 500_000
    aliases: int = 1_000
    problems: int = 100
    steps: int = 10_000
    edges: int = 50_000
    choice_branches: int = 1_000
    handlers: int = 100
    cancel_rest_reach: int = 1_000_000
    text_length: int = 256 * 1024
    key_length: int = 1_000
    manifest_bytes: int = 4 * 1024 * 1024
    body_depth: int = 8
    schema_bytes: int = 64 * 1024


DEFAULT_LIMITS = Limits()
