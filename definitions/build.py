"""Definitions made in Python: functions that give the same documents as YAML and JSON.

    order = workflow(
        "order",
        *chain(
            task("reserve", "inventory.reserve", input={"sku": "${trigger.sku}"}, retry={"max_attempts": 5}),
            task("charge", "payments.charge"),
        ),
        timeout=timedelta(days=7),
    )

A document is a plain dictionary in the words of the reference; nothing is checked here. `compile_document` checks and
compiles it by the same way as text. Durations may be a `timedelta`, wherever text as `30s` may stand.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

Document: TypeAlias = dict[str, Any]
"""A definition, a step or a part of one, in the words of documents."""

Duration: TypeAlias = str | timedelta
OneOrMore: TypeAlias = Document | Sequence[Document]
Target: TypeAlias = str | Document
Next: TypeAlias = Target | Sequence[Target] | Mapping[str, Target | Sequence[Target]]
"""A ref, a choice, a list of them, or these by outcome."""


class DefinitionFields(TypedDict, total=False):
    """What a definition may say besides its name and steps."""

    ductor: int
    version: str
    input: Document | bool
    config: Document
    context: Document
    search_attributes: Document
    output: Any
    timeout: Duration
    on_timeout: Literal["fail", "cancel"]
    defaults: Document
    triggers: OneOrMore
    on: OneOrMore
    defer: Sequence[Document]
    repeat: Document
    lease: Document
    continue_as_new_after: int


class StepFields(TypedDict, total=False):
    """What every step may say."""

    name: str
    run_if: str | bool
    on_skip: Literal["continue", "stop"]
    join: Literal["all", "every", "any"] | int
    cancel_rest: bool
    cancels: str | Sequence[str]
    on_error: Literal["fail", "continue"]
    effects: Document
    emit: OneOrMore
    signal: OneOrMore
    compensate: Document
    lease: Document
    tags: str | Sequence[str]
    checkpoint: str
    next: Next


class WorkerFields(StepFields, total=False):
    """What steps that run in workers may say besides."""

    retry: int | OneOrMore
    timeout: Duration | Document
    queue: str
    priority: int
    credential: str
    repeat: Document


class ParkedFields(StepFields, total=False):
    """What steps that park may say besides."""

    timeout: Duration
    on_timeout: Literal["fail", "skip", "approve"]


class TaskFields(WorkerFields, total=False):
    """What a `task` may say besides."""

    input: Any
    tasks: Sequence[str]


class ConnectorFields(WorkerFields, total=False):
    """What a `connector` may say besides."""

    params: Any


class RuleFields(StepFields, total=False):
    """What a `rule` may say besides."""

    hit: Literal["first", "all", "collect", "unique"]
    default: Any


class TransformFields(StepFields, total=False):
    """What a `transform` may say besides."""

    value: Any
    end: Literal["completed", "failed", "cancelled"]
    error: Document


class ScatterFields(StepFields, total=False):
    """What a `scatter` may say besides."""

    key_expr: str
    mode: Literal["inline", "child_workflow"]
    max_inline_children: int
    concurrency: int
    interval_ms: int
    complete_when: str


class GatherFields(StepFields, total=False):
    """What a `gather` may say besides."""

    strategy: Literal["partition", "include", "drop", "raise"]


class SubworkflowFields(StepFields, total=False):
    """What a `subworkflow` may say."""

    definition: str
    do: Document
    input: Any
    key: str
    mode: Literal["sync", "async"]
    wait_for: str
    timeout: Duration
    on_timeout: Literal["fail_parent", "detach", "continue_with_error"]
    on_parent_close: Literal["cancel", "abandon"]
    repeat: Document


class WaitFields(TypedDict, total=False):
    """What a `wait` may say; its `signal` is a name, or a list of signals it sends."""

    name: str
    run_if: str | bool
    on_skip: Literal["continue", "stop"]
    join: Literal["all", "every", "any"] | int
    cancel_rest: bool
    cancels: str | Sequence[str]
    on_error: Literal["fail", "continue"]
    effects: Document
    emit: OneOrMore
    compensate: Document
    lease: Document
    tags: str | Sequence[str]
    checkpoint: str
    next: Next
    timeout: Duration
    on_timeout: Literal["fail", "skip"]
    duration: Duration
    until: str
    cron: str
    timezone: str
    until_expr: str
    signal: str | OneOrMore
    event: str
    match: str
    lookback: Duration


class ApprovalFields(ParkedFields, total=False):
    """What an `approval` may say besides."""

    title: str
    data: Any
    quorum: int
    veto: bool


class HumanLoopFields(ParkedFields, total=False):
    """What a `human_loop` may say besides."""

    data: Any
    assignee: str
    awaiting_status: str


class EventSetFields(ParkedFields, total=False):
    """What an `event_set` may say besides."""

    policy: Literal["all_required", "any", "quorum", "count", "until_timeout"]
    quorum: int
    count: int
    until: Document


class InteractionFields(ParkedFields, total=False):
    """What an `interaction` may say besides."""

    of: Literal["person", "agent", "system"]
    to: str
    data: Any
    schema: Document


class RouteFields(WorkerFields, total=False):
    """What a `route` may say besides."""

    pipeline: str


def workflow(name: str, *steps: Document, **fields: Unpack[DefinitionFields]) -> Document:
    """A definition."""
    return {"ductor": 1, "name": name, **fields, "steps": list(steps)}


def chain(*steps: Document) -> tuple[Document, ...]:
    """The steps one after another: each that has no `next` leads to the one behind it on success."""
    followed = [{"next": later["ref"]} | step for step, later in pairwise(steps)]
    return (*followed, *steps[-1:])


def choice(*branches: tuple[str, str], default: str) -> Document:
    """A target of `next`: the first `(when, to)` whose CEL holds is taken, else the default."""
    return {"choice": [*({"when": when, "to": to} for when, to in branches), {"to": default}]}


def task(ref: str, handler: str, **fields: Unpack[TaskFields]) -> Document:
    """A step that runs a handler, by its name."""
    return {"ref": ref, "type": "task", "task": handler, **fields}


def connector(ref: str, provider: str, operation: str, **fields: Unpack[ConnectorFields]) -> Document:
    """A step that calls an operation of a provider in the connector catalog."""
    return {"ref": ref, "type": "connector", "connector": provider, "operation": operation, **fields}


def rule(ref: str, rules: Sequence[Document], **fields: Unpack[RuleFields]) -> Document:
    """A decision table of rows `{when, then}`."""
    return {"ref": ref, "type": "rule", "rules": list(rules), **fields}


def transform(ref: str, **fields: Unpack[TransformFields]) -> Document:
    """A step that computes a value, or ends the run."""
    return {"ref": ref, "type": "transform", **fields}


def conditional(ref: str, when: str, **fields: Unpack[StepFields]) -> Document:
    """A step that picks its `true` or its `false` edges."""
    return {"ref": ref, "type": "conditional", "when": when, **fields}


def scatter(ref: str, items_expr: str, do: Document, **fields: Unpack[ScatterFields]) -> Document:
    """A fan-out: `do` is a step without ref, or `{steps, output}`."""
    body = {key: value for key, value in do.items() if key != "ref"}
    return {"ref": ref, "type": "scatter", "items_expr": items_expr, "do": body, **fields}


def gather(ref: str, scatter_ref: str, **fields: Unpack[GatherFields]) -> Document:
    """A step that shapes the results of a scatter."""
    return {"ref": ref, "type": "gather", "scatter_ref": scatter_ref, **fields}


def subworkflow(ref: str, **fields: Unpack[SubworkflowFields]) -> Document:
    """A child run of another definition, or of an inline body."""
    return {"ref": ref, "type": "subworkflow", **fields}


def wait(ref: str, **fields: Unpack[WaitFields]) -> Document:
    """A step that parks until a time comes, or a signal or an event arrives."""
    return {"ref": ref, "type": "wait", **fields}


def approval(ref: str, approvers: str | Sequence[str], **fields: Unpack[ApprovalFields]) -> Document:
    """A step that parks until people have approved or rejected."""
    return {"ref": ref, "type": "approval", "approvers": approvers, **fields}


def human_loop(ref: str, title: str, **fields: Unpack[HumanLoopFields]) -> Document:
    """A step that opens a case and parks until it has the awaited status."""
    return {"ref": ref, "type": "human_loop", "title": title, **fields}


def event_set(ref: str, events: Sequence[Document], **fields: Unpack[EventSetFields]) -> Document:
    """A step that parks until a set of events has arrived."""
    return {"ref": ref, "type": "event_set", "events": list(events), **fields}


def digest(ref: str, key: str, item: object, window: Document, **fields: Unpack[StepFields]) -> Document:
    """A step that gathers items of one key across runs."""
    return {"ref": ref, "type": "digest", "key": key, "item": item, "window": window, **fields}


def interaction(ref: str, ask: str, **fields: Unpack[InteractionFields]) -> Document:
    """A step that asks for input and parks until a fitting reply."""
    return {"ref": ref, "type": "interaction", "ask": ask, **fields}


def route(ref: str, routable: object, **fields: Unpack[RouteFields]) -> Document:
    """A step that asks the routing engine for an assignment."""
    return {"ref": ref, "type": "route", "routable": routable, **fields}
