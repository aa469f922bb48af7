"""Runs to be explained: driven by hand, with messages and hosts."""

from collections.abc import Iterable, Iterator

from ductor.actors.explain import Explanation, explain
from ductor.actors.reasons.reason import Reason
from ductor.definitions.values import JsonValue
from ductor.journal.codec import encode_state
from ductor.journal.events import ControlReceived, MessageKind
from ductor.journal.records import HostRecord
from tests.actors.tick.driver import Driver

HOST = HostRecord(host_id="here", started_at_us=0, heartbeat_at_us=0, tasks=("work", "other"))


def explained(driver: Driver, *hosts: HostRecord, set_aside: str | None = None) -> Explanation:
    """The explanation of a driven run, which leaves the run as it is."""
    before = encode_state(driver.state)
    found = explain(driver.state, driver.program, hosts=hosts or (HOST,), now_us=driver.now_us, set_aside=set_aside)
    assert encode_state(driver.state) == before, "to explain a run changes it"
    return found


def all_reasons(explanation: Explanation) -> Iterator[Reason]:
    """Every reason of the tree."""
    yield from _walk((*explanation.run, *explanation.steps))


def _walk(reasons: Iterable[Reason]) -> Iterator[Reason]:
    for reason in reasons:
        yield reason
        yield from _walk(reason.children)


def step_reason(driver: Driver, ref: str, *hosts: HostRecord) -> Reason:
    """The one reason that a step is told by."""
    beside = ("edge", "guard", "timeout", "no_worker", "told_elsewhere")
    (found,) = (one for one in all_reasons(explained(driver, *hosts)) if one.ref == ref and one.kind not in beside)
    return found


def run_reason(driver: Driver, kind: str, *hosts: HostRecord) -> Reason:
    """The reason of this kind that is about the run."""
    (found,) = (reason for reason in explained(driver, *hosts).run if reason.kind == kind)
    return found


def send(
    driver: Driver,
    kind: MessageKind,
    *,
    name: str = "",
    node: str = "",
    payload: JsonValue = None,
    by: str = "",
) -> None:
    """A message reaches the run."""
    if kind == "event":
        driver.event(name, payload)
    else:
        driver.tick(messages=[driver.message(kind, name, payload, node=node, by=by)])


def pause(driver: Driver, by: str = "ann", reason: str = "audit") -> None:
    """Somebody pauses the run."""
    driver.tick(control=ControlReceived(request_id="pause", kind="pause", by=by, arguments={"reason": reason}))
