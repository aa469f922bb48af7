"""Asking the endpoint over real sockets, and reading the page with Prometheus' own parser."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from ductor.observability.endpoint import Endpoint

WAIT_S = 60.0

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def send(port: int, request: bytes) -> bytes:
    """What the endpoint answers to these bytes; nothing when it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def get(endpoint: Endpoint[Any], path: str) -> tuple[int, bytes]:
    """Status and body."""
    answer = await send(endpoint.port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def report(endpoint: Endpoint[Any], path: str) -> tuple[int, dict[str, Any]]:
    status, body = await get(endpoint, path)
    answer: dict[str, Any] = json.loads(body)
    return status, answer


def concern_kinds(answer: dict[str, Any]) -> list[str]:
    return [one["kind"] for one in answer["concerns"]]


def parsed(page: bytes) -> Samples:
    """Every sample by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((f"ductor_{name}", frozenset(labels.items())))


async def scraped(endpoint: Endpoint[Any]) -> Samples:
    status, page = await get(endpoint, "/metrics")
    assert status == 200
    return parsed(page)


async def report_when(endpoint: Endpoint[Any], is_wanted: Callable[[int, list[str]], bool]) -> dict[str, Any]:
    """The first report of readiness whose status and kinds of concerns are wanted."""
    async with asyncio.timeout(WAIT_S):
        while True:
            status, answer = await report(endpoint, "/ready")
            if is_wanted(status, concern_kinds(answer)):
                return answer
