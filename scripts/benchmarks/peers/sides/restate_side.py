"""Restate: its server as one process, which syncs its log in batches; services under Hypercorn; calls over HTTP.

Variants: `default` has one process of services, `two-workers` two.
"""

import os
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from scripts.benchmarks.peers.sides.driver import Options, Side, asyncio_loop, main
from scripts.benchmarks.peers.sides.processes import free_ports, is_listening, running

WORKERS = {"default": 1, "two-workers": 2}
CALL_TIMEOUT_S = 300
INVOCATIONS_AT_ONCE = 20_000
"""Its default of 1,000 would make parked runs wait for each other."""

JSON = {"content-type": "application/json"}

BACKLOG = 4_096


class RestateSide(Side):
    """Invocations by way of the server's ingress."""

    def __init__(self, client: aiohttp.ClientSession, server_pid: int, services_pid: int) -> None:
        self._client = client
        self._processes = {"program": [services_pid], "server": [server_pid]}

    def processes(self) -> dict[str, list[int]]:
        return self._processes

    async def run(self, steps: int) -> None:
        assert await self._post("/bench/sequence", steps) == steps

    async def gather_steps(self, count: int) -> int:
        return int(await self._post("/bench/fan_out", count))

    async def gather_runs(self, count: int) -> int:
        return int(await self._post("/bench/child_runs", count))

    async def park(self, number: int) -> object:
        key = uuid.uuid4().hex
        async with self._client.post(f"/waiter/{key}/run/send") as reply:
            await reply.read()
        return key

    async def signal(self, parked: object) -> int:
        async with self._client.post(f"/waiter/{parked}/go", json=7, headers=JSON) as reply:
            await reply.read()
        return int(await self._get(f"/restate/workflow/waiter/{parked}/attach"))

    async def start_sleeper(self) -> object:
        async with self._client.post("/bench/sleeper/send") as reply:
            return (await reply.json())["invocationId"]

    async def lateness_s(self, sleeper: object) -> float:
        return await self._get(f"/restate/invocation/{sleeper}/attach")

    async def _post(self, path: str, body: int) -> float:
        async with self._client.post(path, json=body, headers=JSON) as reply:
            answer: float = await reply.json()
            return answer

    async def _get(self, path: str) -> float:
        async with self._client.get(path) as reply:
            answer: float = await reply.json()
            return answer


@asynccontextmanager
async def open_side(options: Options) -> AsyncIterator[Side]:
    """Start services and server, and tell the server of the services."""
    ingress, admin, node, services = free_ports(4)
    folder = Path(options.folder)
    binary = Path(options.cache) / "npm" / "node_modules" / ".bin" / "restate-server"
    environment = {
        **os.environ,
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "warn",
        "RESTATE_WORKER__INVOKER__CONCURRENT_INVOCATIONS_LIMIT": str(INVOCATIONS_AT_ONCE),
    }
    serve = [
        str(Path(sys.executable).with_name("hypercorn")),
        "--bind", f"127.0.0.1:{services}",
        "--workers", str(WORKERS[options.variant]),
        "--backlog", str(BACKLOG),
        "scripts.benchmarks.peers.sides.restate_services:app",
    ]  # fmt: skip
    server = [str(binary), "--no-logo", "--base-dir", str(folder), "--node-name", "bench"]
    async with (
        aiohttp.ClientSession(
            f"http://127.0.0.1:{ingress}",
            connector=aiohttp.TCPConnector(limit=options.in_flight + 8),
            raise_for_status=True,
            skip_auto_headers=["Content-Type"],  # a call without a value must not have one
            timeout=aiohttp.ClientTimeout(total=CALL_TIMEOUT_S),
        ) as client,
        running(serve, folder / "services.log", lambda: is_listening(services)) as services_pid,
        running(
            server,
            folder / "server.log",
            lambda: _is_registered(admin, services, ingress),
            environment=environment,
            folder=folder,
        ) as server_pid,
    ):
        yield RestateSide(client, server_pid, services_pid)


async def _is_registered(admin: int, services: int, ingress: int) -> bool:
    """Ask whether the server is up; once it is, have it look at the services."""
    try:
        async with aiohttp.ClientSession(raise_for_status=True) as client:
            for address in (f"http://127.0.0.1:{admin}/health", f"http://127.0.0.1:{ingress}/restate/health"):
                async with client.get(address):
                    pass
            deployment = {"uri": f"http://127.0.0.1:{services}"}
            async with client.post(f"http://127.0.0.1:{admin}/deployments", json=deployment):
                return True
    except (TimeoutError, aiohttp.ClientError):
        return False


if __name__ == "__main__":
    main(open_side, asyncio_loop)
