"""The past of a run, from its journal: its state at any version, what changed between two, and whether it was tampered
with. Pure: rows come in as values, states go out.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.chain import link
from ductor.journal.codec import decode_events, decode_state, decode_value
from ductor.journal.compaction import go_on_from, is_compacted, state_before
from ductor.journal.errors import BrokenChainError, MissingVersionError
from ductor.journal.fold import fold_row
from ductor.journal.records import LoadedRun, Snapshot, Transition
from ductor.journal.state import FOLD_REVISION, NodeState, RunState

_NOT_COMPARED = frozenset({
    "run_id", "version", "last_hash", "at_us", "nodes", "open_nodes", "running_count", "timers", "touched", "agenda",
    "asked_count", "fanned", "filling", "gathered", "listeners", "message_position", "payloads",
})  # fmt: skip
"""What differs between any two versions, is derived from the rest, or is compared part by part."""
_BY_KEY = ("config", "context", "search_attributes", "checkpoints", "inbox")

_SORTED_ENCODER = msgspec.json.Encoder(order="sorted")


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One difference between two states of a run.

    Attributes:
        path: where, as `("nodes", "reserve", "status")` or `("context", "total")`.
        before, after: the values; UNSET where there was or is none.
    """

    path: tuple[str, ...]
    before: JsonValue | msgspec.UnsetType = msgspec.UNSET
    after: JsonValue | msgspec.UnsetType = msgspec.UNSET


def state_at(
    run_id: str, transitions: Iterable[Transition], version: int | None = None, *, snapshot: Snapshot | None = None
) -> RunState:
    """The state after `version` rows, or after all of them.

    Args:
        run_id: whose rows these are.
        transitions: rows in order, without holes, from version 1, from any that the snapshot covers, or from a row that
            stands for all before it; rows before or after what is needed are passed over.
        version: the row to stop after; 0 for the state before the first.
        snapshot: where to begin, if it is of this fold revision and not past `version`.

    Raises:
        MissingVersionError: a row that is needed is not there.
        UnknownEventError: a row can't be read by this version of the software.
        UnreadableSnapshotError: the snapshot can't.
    """
    state = _beginning(run_id, version, snapshot)
    if state.version == version:
        return state
    for transition in transitions:
        if transition.version <= state.version:
            continue
        if not _follows(state, transition, version):
            break
        fold_transition(state, transition)
        if state.version == version:
            return state
    else:
        if version is None:
            return state
    raise MissingVersionError(run_id, state.version + 1)


def loaded_state(loaded: LoadedRun) -> RunState:
    """The state of a run that a store has loaded, its large values at hand.

    Raises:
        MissingVersionError, UnknownEventError, UnreadableSnapshotError: as `state_at`.
    """
    last_version = loaded.tail[-1].version if loaded.tail else None
    state = state_at(loaded.head.run_id, loaded.tail, last_version, snapshot=loaded.snapshot)
    for payload in loaded.payloads:
        state.payloads[payload.hash] = decode_value(payload.text, f"payload {payload.hash} of run {state.run_id}")
    return state


def fold_transition(state: RunState, transition: Transition) -> None:
    """Fold the next row into `state`, which becomes another one where the row stands for rows that are missing.

    Raises:
        UnknownEventError: the row can't be read here; `state` is untouched.
        MissingVersionError: rows between are missing, and this one does not stand for them; `state` is untouched.
    """
    if transition.version != state.version + 1:
        go_on_from(state, transition)
    events = decode_events(transition.events, run_id=transition.run_id, version=transition.version)
    fold_row(state, transition.version, transition.at_us, transition.hash, events)


def verify_chain(
    run_id: str, transitions: Iterable[Transition], *, after_version: int = 0, after_hash: bytes = b""
) -> tuple[int, bytes]:
    """Recompute the hashes of rows that follow `after_version`, whose hash is `after_hash`.

    A history whose beginning was compacted away begins with the row that stands for it, and the hash that it names.

    Returns:
        The last version and its hash: where to go on with the next page of rows, or what a receipt names.

    Raises:
        BrokenChainError: at the first row whose run, version or hash does not fit the row before.
    """
    version, last_hash = after_version, after_hash
    for row in transitions:
        if version == 0 and row.version > 1 and is_compacted(row.events):
            before = state_before(row)
            version, last_hash = row.version - 1, before.last_hash
        version += 1
        expected = link(last_hash, run_id, version, row.at_us, row.events)
        if row.run_id != run_id or row.version != version or row.hash != expected:
            raise BrokenChainError(run_id, version)
        last_hash = row.hash
    return version, last_hash


def difference(before: RunState, after: RunState) -> list[Change]:
    """What changed for people who read: fields of the run, then context and the like by key, nodes, timers."""
    return [
        *_changes((), _run_fields(before), _run_fields(after)),
        *(change for name in _BY_KEY for change in _changes((name,), getattr(before, name), getattr(after, name))),
        *_node_changes(before.nodes, after.nodes),
        *_changes(("timers",), before.timers.deadlines(), after.timers.deadlines()),
    ]


def object_changes(before: JsonObject, after: JsonObject, path: tuple[str, ...] = ()) -> Iterator[Change]:
    """What differs between two JSON objects, by the innermost keys."""
    for change in _changes(path, before, after):
        old, new = change.before, change.after
        if isinstance(old, dict) and isinstance(new, dict):
            yield from object_changes(old, new, change.path)
        else:
            yield change


def _beginning(run_id: str, version: int | None, snapshot: Snapshot | None) -> RunState:
    if snapshot is None or snapshot.fold_revision != FOLD_REVISION:
        return RunState(run_id=run_id)
    if version is not None and snapshot.version > version:
        return RunState(run_id=run_id)
    return decode_state(snapshot.state)


def _follows(state: RunState, row: Transition, version: int | None) -> bool:
    """Whether the row can be folded next on the way to `version`."""
    if row.version == state.version + 1:
        return True
    return is_compacted(row.events) and (version is None or row.version <= version)


def _run_fields(state: RunState) -> dict[str, object]:
    names = (name for name in RunState.__struct_fields__ if name not in _NOT_COMPARED and name not in _BY_KEY)
    return {name: getattr(state, name) for name in names}


def _node_changes(before: dict[str, NodeState], after: dict[str, NodeState]) -> Iterator[Change]:
    untouched = NodeState()
    for ref in {**before, **after}:
        old, new = before.get(ref, untouched), after.get(ref, untouched)
        if _SORTED_ENCODER.encode(old) != _SORTED_ENCODER.encode(new):
            yield from _changes(("nodes", ref), msgspec.structs.asdict(old), msgspec.structs.asdict(new))


def _changes(path: tuple[str, ...], before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[Change]:
    """Entries that differ as JSON: 1 is not 1.0, and the order of an object's keys says nothing."""
    for key in {**before, **after}:
        if key not in after:
            yield Change((*path, key), before=msgspec.to_builtins(before[key]))
        elif key not in before:
            yield Change((*path, key), after=msgspec.to_builtins(after[key]))
        elif _SORTED_ENCODER.encode(before[key]) != _SORTED_ENCODER.encode(after[key]):
            yield Change((*path, key), msgspec.to_builtins(before[key]), msgspec.to_builtins(after[key]))
