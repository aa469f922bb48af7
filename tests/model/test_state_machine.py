"""A host in memory against the reference model: whatever is asked, in whatever order, whenever the host is killed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ductor.actors.context import TaskContext
from ductor.actors.errors import ControlRefusedError, MessageRefusedError
from ductor.actors.host import HostOptions
from ductor.actors.tasks import Task
from ductor.definitions.values import JsonValue
from ductor.handle import RunHandle
from ductor.host import Host
from ductor.journal.memory import MemoryStore
from ductor.testing.clock import RepeatableIds, VirtualClock
from ductor.testing.crashes import _drop
from ductor.testing.loop import VirtualTimeLoop
from tests.model.reference import MOMENT_S, ORDER, Reference, Run

EXAMPLES: Final = 50
STEPS: Final = 40

ORDERS = ("o-1", "o-2")
# A killed host is missed after three heartbeats of a second; then its neighbour has a sweep of half a second to look.
FUNERAL_S: Final = 6

Asking = Callable[[RunHandle], Coroutine[Any, Any, Any]]

orders = st.sampled_from(ORDERS)


class BrokenError(Exception):
    """What the handler raises for a broken order."""


class HostAgainstReference(RuleBasedStateMachine):
    """Every rule asks the same of a real host and of the model; after each of them both stand at the same place."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.ids = RepeatableIds(self.clock)
        self.model = Reference()
        self.run_ids: dict[str, str] = {}
        self.calls: dict[str, set[str]] = {}
        self._begin()

    # --- lives of the host --------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.loop = VirtualTimeLoop(self.clock)
        self.host = Host(
            tasks=[Task("work", self._work)],
            definitions=ORDER,
            database=self.store,
            options=HostOptions(),
            clock=self.clock,
            ids=self.ids,
        )
        self.loop.run_until_complete(self.store.open())
        self.loop.run_until_complete(self.host.open())

    async def _work(self, input: JsonValue, context: TaskContext) -> str:
        assert isinstance(input, dict)
        order = str(input["order"])
        self.calls.setdefault(order, set()).add(context.idempotency_key)
        if order in self.model.broken:
            raise BrokenError
        return "worked"

    @rule(how=st.sampled_from(["killed", "stopped"]))
    def restart(self, how: Literal["killed", "stopped"]) -> None:
        """Nothing of a killed host runs again, and nobody is told; a new one finds what it left."""
        if how == "killed":
            _drop(self.loop)
        else:
            self.loop.run_until_complete(self.host.close())
            self.loop.close()
        self._begin()
        self._let_pass(FUNERAL_S)

    def teardown(self) -> None:
        """Leave no loop behind."""
        self.loop.run_until_complete(self.host.close())
        self.loop.close()

    # --- what is asked ------------------------------------------------------------------------------------------------

    @initialize(are_broken=st.lists(st.booleans(), min_size=len(ORDERS), max_size=len(ORDERS)))
    def start_all(self, are_broken: list[bool]) -> None:
        for order, is_broken in zip(ORDERS, are_broken, strict=True):
            if is_broken:
                self.model.broken.add(order)
            self.start(order)

    @rule(order=orders)
    def start(self, order: str) -> None:
        """Its key has its run from the second time on."""
        is_new = self.model.start(order)
        run = self._ask(lambda: self.host.start("order", order, key=order))
        assert run.is_new == is_new
        assert self.run_ids.setdefault(order, run.run_id) == run.run_id
        self._let_pass(MOMENT_S)

    @rule(order=orders)
    def mend(self, order: str) -> None:
        self.model.broken.discard(order)

    @rule(order=orders, sent=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=3))
    def signal(self, order: str, sent: list[tuple[int, int]]) -> None:
        """Several one after another, some under an id that was used before."""
        for number, payload in sent:
            self._signal_once(order, f"m-{number}", payload)

    @rule(order=orders, sent=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=2, max_size=3))
    def signal_while_paused(self, order: str, sent: list[tuple[int, int]]) -> None:
        """What comes meanwhile is taken up in its order."""
        self.control(order, "pause")
        self.signal(order, sent)
        self.control(order, "resume")

    @rule(order=orders, amount=st.integers(1, 9))
    def publish(self, order: str, amount: int) -> None:
        expected = self.model.publish(order, amount)
        payload: JsonValue = {"order": order, "amount": self.model.amounts[order]}
        receipt = self._ask(lambda: self.host.publish_event("paid", payload, event_id=order))
        assert receipt.verdict == expected
        self._let_pass(MOMENT_S)

    @rule(order=orders, approves=st.booleans())
    def decide(self, order: str, approves: bool) -> None:
        def vote(run: RunHandle) -> Coroutine[Any, Any, Any]:
            return run.approve("sign", by="ada") if approves else run.reject("sign", by="ada")

        self._both(order, vote, lambda run: self.model.decide(run, approves=approves))

    @rule(order=orders, how=st.sampled_from(["cancelled", "terminated"]))
    def end(self, order: str, how: Literal["cancelled", "terminated"]) -> None:
        def ask(run: RunHandle) -> Coroutine[Any, Any, Any]:
            return run.cancel() if how == "cancelled" else run.terminate()

        self._both(order, ask, lambda run: self.model.end(run, how))

    @rule(order=orders, kind=st.sampled_from(["pause", "resume", "redrive"]))
    def control(self, order: str, kind: Literal["pause", "resume", "redrive"]) -> None:
        """What the run itself decides about: the answer comes with its next tick, so the state is what is compared."""

        def ask(run: RunHandle) -> Coroutine[Any, Any, Any]:
            return {"pause": run.pause, "resume": run.resume, "redrive": run.redrive}[kind]()

        def expect(run: Run) -> None:
            {"pause": self.model.pause, "resume": self.model.resume, "redrive": self.model.redrive}[kind](run)

        self._both(order, ask, expect)

    @rule(moments=st.sampled_from([1, 6, 40]))
    def pass_time(self, moments: int) -> None:
        self._let_pass(moments * MOMENT_S)

    # --- the comparison -----------------------------------------------------------------------------------------------

    @invariant()
    def they_agree(self) -> None:
        for order, run in self.model.runs.items():
            view = self._ask(self.host.run(self.run_ids[order]).status)
            found = (view.status, self._stage(view))
            assert found == (self._status(run), run.stage if run.ended is None else None), f"{order}: {run}"
            assert len(self.calls.get(order, ())) == run.attempts, f"{order}: calls of the handler, {run}"
            heard = {step.ref: step.output for step in view.steps}["heard"]
            assert heard == run.heard, f"{order}: {run}"
            if run.ended == "completed":
                assert view.output == {"heard": run.heard, "paid": self.model.amounts[order]}

    def _signal_once(self, order: str, message_id: str, payload: int) -> None:
        def send(run: RunHandle) -> Coroutine[Any, Any, Any]:
            return run.signal("go", payload, request_id=message_id)

        self._both(order, send, lambda run: self.model.signal(run, message_id, payload))

    @staticmethod
    def _status(run: Run) -> str:
        if run.ended is not None:
            return run.ended
        return "paused" if run.is_paused else "waiting"

    @staticmethod
    def _stage(view: Any) -> str | None:
        if view.ended_at_us is not None:
            return None
        (at,) = [step.ref for step in view.steps if step.status in ("running", "waiting")]
        return "retry" if at == "work" else str(at)

    def _both(
        self, order: str, ask: Callable[[RunHandle], Coroutine[Any, Any, Any]], expect: Callable[[Run], Any]
    ) -> None:
        if order not in self.model.runs:
            return
        expected = expect(self.model.runs[order])
        handle = self.host.run(self.run_ids[order])
        try:
            verdict = self._ask(lambda: ask(handle)).verdict
        except (ControlRefusedError, MessageRefusedError):
            verdict = "refused"
        if expected is not None:
            assert verdict == expected, f"{order}: {self.model.runs[order]}"
        self._let_pass(MOMENT_S)

    def _ask(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return self.loop.run_until_complete(make())

    def _let_pass(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.model.pass_time(seconds)


HostAgainstReference.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=STEPS, phases=(Phase.generate, Phase.shrink)
)
TestHostAgainstReference = HostAgainstReference.TestCase
