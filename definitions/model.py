"""A definition in normal form: what a document means once sugar, defaults per step type and units are resolved."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from ductor.definitions.fields import Cel, Count, LimitMs, Name, Ref, TemplateText, Title
from ductor.definitions.policies import Lease, Part, Repeat
from ductor.definitions.steps import AnyStep
from ductor.definitions.values import JsonObject, JsonValue

Outcome: TypeAlias = Literal["success", "error", "true", "false", "approved", "rejected", "timeout", "done"]


class Edge(Part, frozen=True, kw_only=True):
    """What runs after `source` settles with `outcome`.

    Attributes:
        group: number of the choice group within (source, outcome), None for a plain edge.
        order: place within its group.
        when: CEL of a choice; None for a plain edge and for the group's default.
    """

    source: Ref
    outcome: Outcome
    to: Ref
    group: int | None = None
    order: int = 0
    when: Cel | None = None


class Trigger(Part, frozen=True, kw_only=True):
    """What starts runs by itself: a cron schedule or an event. `match` is CEL, `input` and `key` are templates."""

    cron: str | None = None
    timezone: str = "UTC"
    overlap: Literal["skip", "allow", "queue", "cancel"] = "skip"
    catchup: Literal["last", "all", "none"] = "last"
    event: Name | None = None
    match: Cel | None = None
    input: JsonValue = msgspec.field(default_factory=dict)
    key: TemplateText | None = None


class MessageHandler(Part, frozen=True, kw_only=True):
    """A message heard at any time while the run lives (`on` in documents)."""

    signal: Name | None = None
    event: Name | None = None
    match: Cel | None = None
    effects: JsonObject = msgspec.field(default_factory=dict)
    cancels: tuple[Ref, ...] = ()


class Body(Part, frozen=True, kw_only=True):
    """The inline steps of a scatter or a subworkflow (`do: {steps, output}`); `output` as in `Definition`."""

    steps: tuple[AnyStep, ...]
    edges: tuple[Edge, ...] = ()
    output: JsonValue | msgspec.UnsetType = msgspec.UNSET


class Definition(Part, frozen=True, kw_only=True):
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
        bodies: the inline bodies of steps, by the ref of the step; of a step within a body, by `outer/inner`.
        defer: steps that run once when the run ends, whatever the end but terminate.
        repeat: when the run completes and `until` is false it continues as new.
    """

    language: Annotated[Literal[1], msgspec.Meta(extra={"key": "ductor"})] = 1
    name: Name
    version: Title = ""
    input: JsonValue = None
    config: JsonObject = msgspec.field(default_factory=dict)
    context: JsonObject = msgspec.field(default_factory=dict)
    search_attributes: JsonObject = msgspec.field(default_factory=dict)
    output: JsonValue | msgspec.UnsetType = msgspec.UNSET
    timeout_ms: LimitMs | None = None
    on_timeout: Literal["fail", "cancel"] = "fail"
    triggers: tuple[Trigger, ...] = ()
    on: tuple[MessageHandler, ...] = ()
    steps: tuple[AnyStep, ...]
    edges: tuple[Edge, ...] = ()
    bodies: dict[str, Body] = msgspec.field(default_factory=dict)
    defer: tuple[AnyStep, ...] = ()
    repeat: Repeat | None = None
    lease: Lease | None = None
    continue_as_new_after: Count | None = None
