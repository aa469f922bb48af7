"""Settings that can't be right are refused where they are made, with what would be right, and without passwords."""

from collections.abc import Callable

import pytest

from ductor.actors.errors import InvalidSettingError
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.worker_options import WorkerOptions, check_queues


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1",
        "redis://127.0.0.1:6379/0",
        "rediss://user:secret@redis.example.com:6380/15",
        "redis://[::1]:6379",
        "redis://127.0.0.1:6379?db=3",
        "unix:///run/redis.sock",
        "unix://user:secret@/run/redis.sock?db=1",
    ],
)
def test_addresses(url: str) -> None:
    assert RedisSettings(url=url).url == url


@pytest.mark.parametrize(
    ("url", "is_cluster", "reason"),
    [
        ("127.0.0.1:6379", False, "does not begin with"),
        ("", False, "does not begin with"),
        ("http://:secret@127.0.0.1", False, "does not begin with"),
        ("redis://:secret@127.0.0.1:99999", False, "Port out of range"),
        ("redis://:secret@127.0.0.1:port/0", False, "can't be read"),
        ("redis://127.0.0.1:0", False, "port 0"),
        ("redis:///0", False, "names no host"),
        ("redis://:secret@127.0.0.1:6379/first", False, "number of a database"),
        ("redis://:secret@127.0.0.1:6379/1", True, "a cluster has none but 0"),
        ("unix://", False, "no path"),
    ],
)
def test_addresses_that_are_none(url: str, is_cluster: bool, reason: str) -> None:
    with pytest.raises(InvalidSettingError, match=reason) as raised:
        RedisSettings(url=url, is_cluster=is_cluster)
    assert "redis://:password@host:6379/0" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("shard", ["", "a{b", "a}b"])
def test_a_shard_is_the_hash_tag_of_its_keys(shard: str) -> None:
    with pytest.raises(InvalidSettingError, match="shard"):
        RedisSettings(url="redis://127.0.0.1", shard=shard)


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda: WorkerOptions(concurrency=0), "concurrency"),
        (lambda: WorkerOptions(concurrency=10_001), "concurrency"),
        (lambda: WorkerOptions(visibility_ms=99), "visibility_ms"),
        (lambda: WorkerOptions(visibility_ms=25 * 3_600_000), "visibility_ms"),
        (lambda: WorkerOptions(drain_ms=-1), "drain_ms"),
        (lambda: check_queues([]), "queues"),
        (lambda: check_queues([f"q{number}" for number in range(17)]), "queues"),
        (lambda: check_queues(["default", ""]), "queues"),
        (lambda: check_queues(["system/host-1"]), "queues"),
    ],
)
def test_what_no_worker_can_do(make: Callable[[], object], setting: str) -> None:
    with pytest.raises(InvalidSettingError) as raised:
        make()
    assert raised.value.setting == setting
