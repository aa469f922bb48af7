"""Policies of queues out of a file: what it may say, and how it is refused."""

from pathlib import Path

import pytest

from ductor.actors.errors import InvalidSettingError
from ductor.actors.queue.items import LanePolicy, QueuePolicy
from ductor.actors.queue.policies import QueuePolicies, TenantInQueue
from ductor.queue_policies import MAX_FILE_BYTES, read_queue_policies

YAML = """
queues:
  gpu: {max_in_flight: 40, max_queued: 10000}
tenants:
  - {queue: gpu, tenant: acme, policy: {weight: 3, max_in_flight: 20}}
  - {queue: default, tenant: trial, policy: {rate_per_s: 5, burst: 10}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "policies.yaml"


def test_a_file_says_what_a_program_would(file: Path) -> None:
    file.write_text(YAML)
    assert read_queue_policies(file) == QueuePolicies(
        queues={"gpu": QueuePolicy(max_in_flight=40, max_queued=10_000)},
        tenants=(
            TenantInQueue(queue="gpu", tenant="acme", policy=LanePolicy(weight=3, max_in_flight=20)),
            TenantInQueue(queue="default", tenant="trial", policy=LanePolicy(rate_per_s=5.0, burst=10)),
        ),
    )


def test_json_is_read_as_well(file: Path) -> None:
    file.write_text('{"queues": {"gpu": {"max_in_flight": 1}}}')
    assert read_queue_policies(file).queues == {"gpu": QueuePolicy(max_in_flight=1)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues: {gpu: {max_inflight: 1}}", "unknown field `max_inflight` - at `$.queues[...]`"),
        ("queue: {}", "unknown field `queue`"),
        ("tenants: [{queue: gpu, policy: {}}]", "missing required field `tenant` - at `$.tenants[0]`"),
        ("tenants: [{queue: gpu, tenant: acme, policy: {weight: 0}}]", "weight 1 to 1000"),
        ("queues: {gpu: {max_in_flight: 0}}", "both caps from 1"),
        ("{", "policies.yaml"),
        ("a" * (MAX_FILE_BYTES + 1), f"more than {MAX_FILE_BYTES} bytes"),
    ],
)
def test_a_file_that_is_not_valid_is_named_with_the_place(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(InvalidSettingError) as raised:
        read_queue_policies(file)
    assert said in str(raised.value)
    assert str(file) in str(raised.value)


def test_a_file_that_is_not_there(file: Path) -> None:
    with pytest.raises(InvalidSettingError, match="No such file"):
        read_queue_policies(file)
