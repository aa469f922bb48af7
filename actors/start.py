"""What starting a run needs, whoever starts it: the definition, the checked trigger, the first event. No I/O."""

import uuid

import msgspec

from ductor.actors.errors import RunNotFoundError, StartRefusedError
from ductor.actors.tick.activation import StateActivation
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.program import Program
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.codec import checked_value, encode_value, stored_value
from ductor.journal.commit import Payload
from ductor.journal.events import RunStarted
from ductor.journal.fold import apply_event
from ductor.journal.ids import is_run_id
from ductor.journal.state import RunState
from ductor.journal.trace_context import parse_traceparent

MAX_KEY_BYTES = 255
"""Keys that enter an index: start keys, tenants, request ids, search attributes."""

DEFAULT_TENANT = "default"


def checked_key(value: str, what: str) -> str:
    """A key that fits an index. Raises StartRefusedError."""
    size_bytes = len(value.encode("utf-8", "surrogatepass"))
    if not value or size_bytes > MAX_KEY_BYTES or "\0" in value:
        raise StartRefusedError(what, f"it must have 1 to {MAX_KEY_BYTES} bytes without NUL, and has {size_bytes}")
    checked_value(value, what)
    return value


def checked_run_id(run_id: str) -> str:
    """A run id in its one form. Raises RunNotFoundError for text that is none."""
    if is_run_id(run_id):
        return run_id
    try:
        return str(uuid.UUID(run_id))
    except ValueError:
        raise RunNotFoundError(run_id) from None


def checked_traceparent(traceparent: str) -> str:
    """A trace context in the form that the journal takes. Raises StartRefusedError."""
    if traceparent and parse_traceparent(traceparent) is None:
        raise StartRefusedError("traceparent", f"{traceparent!r} is not one of version 00 of W3C Trace Context")
    return traceparent


class Ancestry(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run comes from that a step of another run starts; the fields are those of `RunStarted`.

    Attributes:
        context: of a run that carries out a body: what it begins with instead of the definition's own.
    """

    parent_run_id: str
    root_run_id: str
    depth: int
    parent_node: str
    parent_generation: int
    parent_waits_for: str
    scope: JsonObject = {}
    context: JsonObject | None = None
    traceparent: str = ""


def first_event(
    program: Program,
    run_id: str,
    now_us: int,
    trigger: object,
    *,
    tenant: str,
    key: str | None,
    definitions: dict[str, str] | None = None,
    ancestry: Ancestry | None = None,
) -> tuple[RunStarted, list[tuple[Payload, JsonValue]]]:
    """The first event of a run, and the large values that go beside it.

    Args:
        program: what the run carries out, the body if it carries out one.
        definitions: the manifest hash of each definition that the run or its children may start, by name.
        ancestry: of a run that another one starts.

    Raises:
        TriggerError: the trigger does not fit the definition's schema; every problem is named.
        ValueRefusedError: the trigger is not exact JSON or too large.
        StartRefusedError: the key does not fit an index, or the search attributes can't be computed.
    """
    manifest = program.manifest
    checked_key(tenant, "tenant")
    if key is not None:
        checked_key(key, "start key")
    if trigger is None and isinstance(manifest.input, dict) and manifest.input.get("type") == "object":
        trigger = {}  # nothing given where an object is wanted: its defaults may be all it needs
    value = program.trigger.validate(checked_value(trigger, "trigger"))
    stored = stored_value(value, "trigger")
    payloads: list[tuple[Payload, JsonValue]] = []
    if stored.payload is not None:
        payloads.append((stored.payload, value))
    started = RunStarted(
        tenant=tenant,
        definition=manifest.name,
        manifest_hash=program.manifest_hash,
        entrypoints=program.entrypoints,
        trigger=stored.inline,
        trigger_ref=stored.ref,
        config=manifest.config,
        context=manifest.context,
        key=key,
        timeout_at_us=None if manifest.timeout_ms is None else now_us + manifest.timeout_ms * 1_000,
        body=program.body,
        definitions=definitions or {},
    )
    if ancestry is not None:
        started = _descended(started, ancestry)
    if program.search_attributes is None:
        return started, payloads
    attributes = _search_attributes(program, run_id, now_us, started, payloads)
    return msgspec.structs.replace(started, search_attributes=attributes), payloads


def _descended(started: RunStarted, ancestry: Ancestry) -> RunStarted:
    return msgspec.structs.replace(
        started,
        parent_run_id=ancestry.parent_run_id,
        root_run_id=ancestry.root_run_id,
        depth=ancestry.depth,
        parent_node=ancestry.parent_node,
        parent_generation=ancestry.parent_generation,
        parent_waits_for=ancestry.parent_waits_for,
        scope=ancestry.scope,
        traceparent=ancestry.traceparent,
        context=started.context if ancestry.context is None else ancestry.context,
    )


def _search_attributes(
    program: Program, run_id: str, now_us: int, started: RunStarted, payloads: list[tuple[Payload, JsonValue]]
) -> JsonObject:
    assert program.search_attributes is not None
    state = RunState(run_id=run_id, at_us=now_us)
    state.payloads.update((payload.hash, value) for payload, value in payloads)
    apply_event(state, started)
    try:
        attributes = program.search_attributes.render(StateActivation(program, state, now_us))
    except ExpressionError as error:
        raise StartRefusedError("search_attributes", str(error)) from error
    checked = checked_value(attributes, "search_attributes")
    assert isinstance(checked, dict)
    for name, attribute in checked.items():
        text = attribute if isinstance(attribute, str) else encode_value(attribute).decode()
        if len(text.encode()) > MAX_KEY_BYTES:
            raise StartRefusedError(f"search attribute {name}", f"it has more than {MAX_KEY_BYTES} bytes")
    return checked
