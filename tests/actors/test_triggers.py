"""Triggers on hosts: events start runs."""

import asyncio
import logging
from typing import Any

import pytest

from ductor.actors.host import EngineHost
from ductor.actors.tasks import TaskRegistry
from ductor.definitions.compile import compile_text
from ductor.definitions.expressions import STANDARD_LIBRARY
from ductor.definitions.values import JsonValue
from ductor.journal.errors import OverloadedError, StoreUnavailableError
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, WrappedStore, definition
from tests.actors.triggering import BY_EVENT, outputs, runs


@virtual_time
async def test_an_event_starts_a_run_at_once():
    bench = Bench()
    async with bench.host(BY_EVENT, bench.handler()) as host:
        await host.publish_event("order.created", {"id": 1, "total": 5})
        await host.publish_event("order.created", {"id": 2, "total": 0})
        await host.publish_event("order.deleted", {"id": 3, "total": 5})
        await host.publish_event("order.created", {"id": 4, "total": 5}, tenant="other")
        assert await outputs(host) == [{"a": {"id": 1, "total": 5}}]


@virtual_time
async def test_a_repeated_event_starts_nothing_again_and_a_repeated_key_neither():
    bench = Bench()
    text = BY_EVENT.replace('input: "${event.payload}"', 'input: "${event.payload}"\n    key: "${event.payload.id}"')
    async with bench.host(text, bench.handler()) as host:
        await host.publish_event("order.created", {"id": 1, "total": 5}, event_id="e-1")
        await host.publish_event("order.created", {"id": 1, "total": 5}, event_id="e-1")
        await host.publish_event("order.created", {"id": 1, "total": 6}, event_id="e-2")
        await host.publish_event("order.created", {"id": "1", "total": 7}, event_id="e-3")
        await host.publish_event("order.created", {"id": 2, "total": 8}, event_id="e-4")
        assert sorted(run.key or "" for run in await runs(host)) == ["1", "2"]
        assert sorted(await outputs(host), key=str) == [{"a": {"id": 1, "total": 5}}, {"a": {"id": 2, "total": 8}}]


@virtual_time
async def test_expressions_see_the_event_and_the_config():
    bench = Bench()
    text = """
    config: {limit: 10}
    triggers:
      - event: order.created
        match: event.payload.total > config.limit
        input: {id: "${event.id}", name: "${event.name}", at: "${event.at}"}
    steps: [{ref: a, type: transform, value: "${trigger}"}]
    """
    async with bench.host(text, bench.handler()) as host:
        await host.publish_event("order.created", {"total": 10})
        await host.publish_event("order.created", {"total": 11}, event_id="event:e-1")
        assert await outputs(host) == [
            {"a": {"id": "event:e-1", "name": "order.created", "at": "2026-01-01T00:00:00Z"}}
        ]


@virtual_time
async def test_an_event_id_as_long_as_they_come_starts_its_run():
    bench = Bench()
    async with bench.host(BY_EVENT, bench.handler()) as host:
        for _ in range(2):
            await host.publish_event("order.created", {"id": 1, "total": 5}, event_id="e" * 255)
        assert len(await runs(host)) == 1


@pytest.mark.parametrize(
    ("payload", "key"),
    [({"id": 1}, None), ({"total": 5}, None), ({"id": 1, "total": 5, "k": None}, "${event.payload.k}")],
    ids=["match fails", "input does not fit", "key is null"],
)
@virtual_time
async def test_what_the_definition_or_the_event_is_to_blame_for_is_logged_and_over(
    payload: JsonValue, key: str | None, caplog: pytest.LogCaptureFixture
):
    bench = Bench()
    text = BY_EVENT if key is None else BY_EVENT.replace("    input:", f'    key: "{key}"\n    input:')
    async with bench.host(text, bench.handler()) as host:
        await host.publish_event("order.created", payload)
        await asyncio.sleep(5)
        assert await runs(host) == []
        assert await bench.store.unmatched_events(bench.clock.now_us(), 10) == []
        assert [record.levelno for record in caplog.records if "trigger 0 of 'subject'" in record.getMessage()] == [
            logging.ERROR
        ]
        await host.publish_event("order.created", {"id": 2, "total": 5, "k": "k"})
        assert len(await runs(host)) == 1


@pytest.mark.parametrize("error", [StoreUnavailableError("away"), OverloadedError(1, 1)])
@virtual_time
async def test_what_is_nobodys_fault_is_tried_again(error: Exception):
    class Away(WrappedStore):
        is_away = True

        def commit(self, commit: Any, answer: Any) -> None:
            if self.is_away:
                raise error
            self.inner.commit(commit, answer)

    bench = Bench()
    store = Away(bench.store)
    async with bench.host(BY_EVENT, bench.handler(), store) as host:
        assert (await host.publish_event("order.created", {"id": 1, "total": 5})).verdict == "accepted"
        await asyncio.sleep(5)
        assert await runs(host) == []
        store.is_away = False
        await asyncio.sleep(20)
        assert await outputs(host) == [{"a": {"id": 1, "total": 5}}]


@virtual_time
async def test_a_step_that_emits_starts_the_runs_of_another_definition():
    bench = Bench()
    async with bench.host(BY_EVENT, bench.handler()) as host:
        text = """
        ductor: 1
        name: sender
        steps: [{ref: say, type: transform, value: 1, emit: [{event: order.created, payload: {id: 7, total: 1}}]}]
        """
        for compiled in compile_text(text):
            await host.publish(compiled)
        sender = await host.start("sender")
        await host.outcome(sender.run_id)
        await asyncio.sleep(1)
        (started,) = [run for run in await runs(host) if run.definition == "subject"]
        assert (await host.outcome(started.run_id)).output == {"a": {"id": 7, "total": 1}}


@virtual_time
async def test_unpublishing_stops_the_triggers_and_publishing_brings_them_back():
    bench = Bench()
    async with bench.host(BY_EVENT, bench.handler()) as host:
        await host.unpublish("subject")
        await host.publish_event("order.created", {"id": 1, "total": 5})
        await asyncio.sleep(5)
        assert await runs(host) == []
        for compiled in compile_text(definition(BY_EVENT)):
            await host.publish(compiled)
        await host.publish_event("order.created", {"id": 2, "total": 5})
        assert len(await runs(host)) == 1


@virtual_time
async def test_the_newest_version_has_the_say():
    bench = Bench()
    async with bench.host(BY_EVENT, bench.handler()) as host:
        for compiled in compile_text(definition(BY_EVENT.replace("order.created", "order.paid"))):
            await host.publish(compiled)
        await host.publish_event("order.created", {"id": 1, "total": 5})
        await host.publish_event("order.paid", {"id": 2, "total": 5})
        assert await outputs(host) == [{"a": {"id": 2, "total": 5}}]


@virtual_time
async def test_functions_of_the_host_may_be_used():
    functions = STANDARD_LIBRARY.with_function("doubled", lambda value: value * 2, least=1)
    bench = Bench()
    await bench.store.open()
    text = definition(BY_EVENT.replace('"${event.payload}"', '{id: "${doubled(event.payload.id)}"}'))
    host = EngineHost(
        bench.store, TaskRegistry((bench.handler(),)), clock=bench.clock, ids=bench.ids, functions=functions
    )
    for compiled in compile_text(text, functions=functions):
        await host.publish(compiled)
    async with host:
        await host.publish_event("order.created", {"id": 4, "total": 5})
        assert await outputs(host) == [{"a": {"id": 8}}]
