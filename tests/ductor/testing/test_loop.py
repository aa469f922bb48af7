"""Virtual time: exact, instant, and patient with the world outside."""

import asyncio
import socket
import threading

import pytest

from ductor.testing.clock import START_US, RepeatableIds, VirtualClock
from ductor.testing.loop import NothingLeftError, VirtualTimeLoop, outside, run_in_virtual_time, virtual_time


def test_time_jumps_to_timers_exactly_and_in_order():
    clock = VirtualClock()
    seen: list[tuple[str, int]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, clock.elapsed_us))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sleeper("week", 7 * 86_400))
            group.create_task(sleeper("second", 1))
            group.create_task(sleeper("millisecond", 0.001))

    run_in_virtual_time(main(), clock=clock)
    assert seen == [("millisecond", 1_000), ("second", 1_000_000), ("week", 7 * 86_400 * 1_000_000)]
    assert clock.now_us() == START_US + 7 * 86_400 * 1_000_000


def test_ten_thousand_odd_delays_stay_exact_to_the_microsecond():
    clock = VirtualClock()

    async def main() -> None:
        for number in range(10_000):
            before = clock.elapsed_us
            await asyncio.sleep((123_457 + number) / 1_000_000)
            assert clock.elapsed_us == before + 123_457 + number

    run_in_virtual_time(main(), clock=clock)


def test_time_stands_still_while_a_thread_works():
    clock = VirtualClock()
    release = threading.Event()

    async def main() -> str:
        loop = asyncio.get_running_loop()
        timer_fired = asyncio.Event()
        loop.call_later(3_600, timer_fired.set)
        work = loop.run_in_executor(None, release.wait)
        for _ in range(50):
            await asyncio.sleep(0)
        assert clock.elapsed_us == 0
        threading.Timer(0.02, release.set).start()
        await work
        assert not timer_fired.is_set()
        assert clock.elapsed_us == 0
        await timer_fired.wait()
        return "done"

    assert run_in_virtual_time(main(), clock=clock) == "done"
    assert clock.elapsed_us == 3_600 * 1_000_000


def test_declared_work_outside_holds_a_timeout_back():
    clock = VirtualClock()

    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        near, far = socket.socketpair()
        near.setblocking(False)
        threading.Timer(0.02, far.send, [b"answer"]).start()
        try:
            async with asyncio.timeout(1):
                return await outside(loop.sock_recv(near, 100))
        finally:
            near.close()
            far.close()

    assert run_in_virtual_time(main(), clock=clock) == b"answer"
    assert clock.elapsed_us == 0


def test_bytes_that_a_socket_has_yet_to_take_are_outstanding_work():
    clock = VirtualClock()
    megabytes = b"x" * 4_000_000

    async def main() -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        received = bytearray()

        def reader() -> None:
            while len(received) < len(megabytes):
                received.extend(far.recv(65_536))

        thread = threading.Thread(target=reader)
        threading.Timer(0.02, thread.start).start()
        async with asyncio.timeout(1):
            await asyncio.get_running_loop().sock_sendall(near, megabytes)
        thread.join()
        near.close()
        far.close()
        assert received == megabytes

    run_in_virtual_time(main(), clock=clock)
    assert clock.elapsed_us == 0


def test_a_wait_that_nothing_can_end_is_an_error_that_names_it():
    async def forever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(forever(), name="the one who waits")

    with pytest.raises(NothingLeftError) as caught:
        run_in_virtual_time(main())
    assert any("the one who waits" in task and "test_loop.py" in task for task in caught.value.waiting)


@virtual_time
async def test_decorated_tests_run_in_virtual_time():
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    await asyncio.sleep(86_400)
    assert loop.time() == 86_400


@virtual_time
async def test_decorated_tests_take_fixtures(tmp_path):
    assert tmp_path.exists()


def test_one_clock_drives_loop_after_loop():
    clock = VirtualClock()
    run_in_virtual_time(asyncio.sleep(5), clock=clock)
    run_in_virtual_time(asyncio.sleep(7), clock=clock)
    assert clock.elapsed_us == 12_000_000


def test_a_clock_refuses_to_go_back():
    with pytest.raises(ValueError, match="does not go back"):
        VirtualClock().advance(-1)


def test_identifiers_repeat_between_sources_and_never_within_one():
    first, second = RepeatableIds(VirtualClock()), RepeatableIds(VirtualClock())
    run_ids = [first.run_id() for _ in range(100)]
    assert run_ids == [second.run_id() for _ in range(100)]
    assert len(set(run_ids)) == 100
    commit_ids = [first.commit_id() for _ in range(100)]
    assert len(set(commit_ids)) == 100
    assert RepeatableIds(VirtualClock(), seed="other").run_id() != run_ids[0]


@virtual_time
async def test_time_goes_on_after_many_years():
    loop = asyncio.get_running_loop()
    for days in (100, 300, 3_650, 36_500):
        await asyncio.sleep(days * 86_400)
        before = loop.time()
        await asyncio.sleep(0.1)
        assert loop.time() - before == pytest.approx(0.1, abs=1e-6)
