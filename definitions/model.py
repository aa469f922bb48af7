"""A definition in normal form: what a document means once sugar, defaults per step type and units are resolved."""

import msgspec

from ductor.definitions.policies import Lease, Part, Repeat
from ductor.definitions.steps import AnyStep
from ductor.definitions.values import JsonObject, JsonValue


class Edge(Part):
    """What runs after `source` settles with `outcome`.

    Attributes:
        group: number of the choice group within (source, outcome), None for a plain edge.
        order: place within its group.
        when: CEL of a choice; None for a plain edge and for the group's default.
    """

    source: str
    outcome: str
    to: str
    group: int | None = None
    order: int = 0
    when: str | None = None


class Trigger(Part):
    """What starts runs by itself: a cron schedule or an event. `match` is CEL, `input` and `key` are templates."""

    cron: str | None = None
    timezone: str = "UTC"
    overlap: str = "skip"
    catchup: str = "last"
    event: str | None = None
    match: str | None = None
    input: JsonValue = msgspec.field(default_factory=dict)
    key: str | None = None


class MessageHandler(Part):
    """A message heard at any time while the run lives (`on` in documents)."""

    signal: str | None = None
    event: str | None = None
    match: str | None = None
    effects: JsonObject = msgspec.field(default_factory=dict)
    cancels: tuple[str, ...] = ()


class Definition(Part):
    """One workflow.

    Attributes:
        language: version of the definition language.
        version: free label.
        input: JSON Schema of the trigger; None accepts anything.
        config: constants bound at publish.
        context: initial run context.
        search_attributes: templates, evaluated when the run starts.
        output: template of the run's output; UNSET means the outputs of the succeeded steps without outgoing edges.
        timeout_ms: of the whole run; `on_timeout` is `fail` or `cancel`.
        steps: in document order here, in Kahn order in a manifest.
        edges: sorted.
        defer: steps that run once when the run ends, whatever the end but terminate.
        repeat: when the run completes and `until` is false it continues as new.
    """

    language: int = 1
    name: str
    version: str = ""
    input: JsonValue = None
    config: JsonObject = msgspec.field(default_factory=dict)
    context: JsonObject = msgspec.field(default_factory=dict)
    search_attributes: JsonObject = msgspec.field(default_factory=dict)
    output: JsonValue | msgspec.UnsetType = msgspec.UNSET
    timeout_ms: int | None = None
    on_timeout: str = "fail"
    triggers: tuple[Trigger, ...] = ()
    on: tuple[MessageHandler, ...] = ()
    steps: tuple[AnyStep, ...]
    edges: tuple[Edge, ...] = ()
    defer: tuple[AnyStep, ...] = ()
    repeat: Repeat | None = None
    lease: Lease | None = None
    continue_as_new_after: int | None = None
