"""A random story of messages, events, waits, inbox and triggers told to both stores: they must agree on all of it."""

from random import Random
from typing import Any

import msgspec
import pytest

from ductor.definitions.values import JsonValue
from ductor.journal.commit import (
    BusEvent,
    Commit,
    EventWait,
    HeadUpdate,
    InboxItem,
    MessageDisposition,
    Payload,
    SentMessage,
)
from ductor.journal.events import Message, PayloadRef
from ductor.journal.memory import MemoryStore
from ductor.journal.postgres import PostgresStore
from ductor.journal.records import StartTrigger
from ductor.journal.store import Store
from tests.contracts.writers import START_US, RunWriter, send_all, send_well

STORIES = 10
CHAPTERS = 60
STATUSES = ["running", "waiting", "paused", "completed", "failed"]
TENANTS = ["acme", "globex"]
NODES = ["a", "ab", "a_b", "@on"]
NAMES = ["shipped", "paid"]
KEYS = [("", ""), ("payload.id", "1"), ("payload.id", '"é"')]
PEOPLE = ["ann", "bob", "größe"]
PAYLOADS: list[JsonValue] = [1, 1.0, 2**70, None, {"id": "é"}]
FAR_FUTURE_US = START_US * 10


RUNS = range(5)
# Of two ticks in one batch nobody promises which comes first, so that each run has ids of its own to send under.
MESSAGE_IDS = [f"m{number}" for number in RUNS]
EVENT_IDS = [f"é{number}" for number in RUNS]


class Story:
    """What happens to a few runs of two tenants, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.runs = [RunWriter() for _ in RUNS]
        self.sent: list[Commit] = []

    def begin(self) -> list[Commit]:
        """The starts of all runs."""
        return [
            run.start(tenant=TENANTS[number % 2], definition=NAMES[number % 2]) for number, run in enumerate(self.runs)
        ]

    def batch(self) -> list[Commit]:
        """Commits to send at once, of different runs: new ones, and old ones again."""
        chosen = self.random.sample(self.runs, self.random.randint(1, 2))
        commits = [self._commit(run) for run in chosen]
        if self.sent and self.random.random() < 0.3:
            commits.append(self.random.choice(self.sent))
        self.sent += commits
        return commits

    def _commit(self, run: RunWriter) -> Commit:
        random, number = self.random, self.runs.index(run)
        parts: dict[str, Any] = {
            "messages": self._some(lambda: MessageDisposition(self._message_id(), self._disposition())),
            "sent": self._some(lambda: SentMessage(random.choice(self.runs).run_id, self._message(number))),
            "published": self._some(lambda: self.event(number)),
        }
        here, gone = self._some(lambda: random.choice(NODES)), self._some(lambda: random.choice(NODES))
        parts["waits"] = tuple(self._wait(node) for node in {*here} - {*gone})
        parts["inbox"] = tuple(self._item(node) for node in {*here} - {*gone})
        parts["waits_gone"] = parts["inbox_gone"] = tuple(sorted({*gone}))
        # one disposition of a message: which of two would count is nobody's promise
        parts["messages"] = tuple({each.message_id: each for each in parts["messages"]}.values())
        if random.random() < 0.2:
            return run.dispositions(**parts)
        if random.random() < 0.3:
            parts["head"] = HeadUpdate(status=random.choice(STATUSES))  # type: ignore[arg-type]
        return run.commit(**parts)

    def _some(self, make: Any) -> tuple[Any, ...]:
        return tuple(make() for _ in range(self.random.choice([0, 0, 1, 2])))

    def _message_id(self) -> str:
        return self.random.choice([*MESSAGE_IDS, *(f"event:{event_id}" for event_id in EVENT_IDS)])

    def _disposition(self) -> Any:
        return self.random.choice(["buffered", "consumed", "undelivered"])

    def _message(self, number: int) -> Message:
        return Message(id=MESSAGE_IDS[number], kind="signal", payload=self.random.randint(0, 9))

    def _wait(self, node: str) -> EventWait:
        path, value = self.random.choice(KEYS)
        return EventWait(
            node=node,
            index=self.random.randint(0, 2),
            name=self.random.choice(NAMES),
            since_us=self.random.randint(0, 3),
            key_path=path,
            key_value=value,
        )

    def _item(self, node: str) -> InboxItem:
        people = tuple(self.random.choices(PEOPLE, k=self.random.randint(0, 3)))
        return InboxItem(
            node=node, kind="approval", title="?", people=people, status=self.random.choice(["open", "mine"])
        )

    def event(self, number: int) -> BusEvent:
        """An event of one of the tenants, under the id that this run publishes by."""
        return BusEvent(
            tenant=self.random.choice(TENANTS),
            event_id=EVENT_IDS[number],
            name=self.random.choice(NAMES),
            payload=self.random.choice(PAYLOADS),
        )

    def deed(self) -> Any:
        """Something that is done beside commits: a function from a store to what it answers."""
        random = self.random
        run, event = random.choice(self.runs), self.event(random.choice(RUNS))
        message, tenant = self._message(random.choice(RUNS)), random.choice([None, *TENANTS])
        with_payload = msgspec.structs.replace(message, payload=None, payload_ref=PayloadRef("h", 1))
        node, index, since_us = random.choice(NODES), random.randint(0, 2), random.choice([None, 0, 1, 2, 3])
        run_ids = [each.run_id for each in random.sample(self.runs, 3)]
        triggers = self._triggers()
        deeds: list[Any] = [
            lambda store: store.send_message(run.run_id, message, tenant=tenant),
            lambda store: store.send_message(run.run_id, with_payload, [Payload("h", b"1")]),
            lambda store: store.publish_event(event),
            lambda store: store.deliver_event(event, run_ids),
            lambda store: store.event_matched(event.tenant, event.event_id),
            lambda store: store.remove_old_events(FAR_FUTURE_US, 100),
            lambda store: store.wait_scanned(run.run_id, node, index, since_us=since_us),
            lambda store: store.replace_triggers("acme", "order", triggers),
            lambda store: store.advance_schedule(triggers[0], START_US + 9) if triggers else _nothing(),
        ]
        return random.choice(deeds)

    def _triggers(self) -> list[StartTrigger]:
        random = self.random
        return [
            StartTrigger(
                tenant="acme",
                definition="order",
                manifest_hash=random.choice(["m1", "m2"]),
                index=index,
                event=random.choice(NAMES) if is_event else "",
                next_at_us=None if is_event else START_US + random.randint(0, 3),
            )
            for index in random.sample(range(4), random.randint(0, 3))
            for is_event in [random.random() < 0.5]
        ]


async def _nothing() -> None:
    return None


def timeless(value: object) -> object:
    """What was answered, without clocks, positions and orders: for ticks of one batch these are each store's own."""
    if isinstance(value, msgspec.Struct):
        own = {name for name in ("at_us", "published_at_us", "position") if name in value.__struct_fields__}
        return repr(msgspec.structs.replace(value, **dict.fromkeys(own, 0)))
    if isinstance(value, list | tuple):
        return sorted(map(repr, map(timeless, value)))
    return value


async def everything(store: Store, story: Story) -> dict[str, object]:
    """All that can be read about what waits."""
    runs = [run.run_id for run in story.runs]
    inputs = [await store.inputs(run_id) for run_id in runs]
    loads = [await store.load(run_id) for run_id in runs]
    assert [each and each.messages for each in inputs] == [each and each.messages for each in loads]
    ids = [*MESSAGE_IDS, *(f"event:{event_id}" for event_id in EVENT_IDS)]
    places = [(tenant, name) for tenant in TENANTS for name in NAMES]
    return {
        "messages": [timeless(each.messages) for each in inputs if each is not None],
        "payloads": [each.payloads for each in inputs if each is not None],
        "versions": [each.head_version for each in inputs if each is not None],
        "receipts": [timeless(await store.message_receipt(run_id, each)) for run_id in runs for each in ids],
        "wake": sorted(await store.runs_to_wake(START_US, 100)),
        "open": [list(await store.open_run_ids(tenant, None, None, 10)) for tenant in TENANTS],
        "unmatched": timeless(list(await store.unmatched_events(FAR_FUTURE_US, 100))),
        "events": [timeless(list(await store.events_since(*place, 0, after_position=0, limit=9))) for place in places],
        "paths": [list(await store.event_key_paths(*place)) for place in places],
        "waits": [list(await store.waits_for_event(*place, KEYS, after=None, limit=100)) for place in places],
        "unscanned": list(await store.unscanned_waits(100)),
        "inbox": [
            list(await store.inbox(person=person, tenant=tenant, limit=7))
            for person in (None, "", *PEOPLE)
            for tenant in (None, *TENANTS)
        ],
        "event triggers": [list(await store.event_triggers(*place)) for place in places],
        "due": list(await store.due_schedules(START_US + 2, 100)),
    }


@pytest.mark.parametrize("seed", range(STORIES))
async def test_both_stores_tell_the_same_story(memory_store: MemoryStore, postgres_store: PostgresStore, seed: int):
    story = Story(seed)
    begin = story.begin()
    for store in (memory_store, postgres_store):
        await send_well(store, *begin)
    for _ in range(CHAPTERS):
        batch, deed = story.batch(), story.deed()
        told = [
            ([repr(answer) for answer in await send_all(store, batch)], timeless(await deed(store)))
            for store in (memory_store, postgres_store)
        ]
        assert told[0] == told[1]
    in_memory, in_postgres = await everything(memory_store, story), await everything(postgres_store, story)
    for name, found in in_memory.items():
        assert in_postgres[name] == found, name
    assert in_memory["waits"]
