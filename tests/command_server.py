"""The command line without the time that it takes to load it: `python command_server.py SOCKET`.

A process that has loaded the engine forks one that carries a command out, for each client that connects. A command
takes a second of the processor to load and some hundredths to work, and tests call hundreds. What a forked process does
is what a new one would do: it has the client's folder, environment, arguments and streams, and ends with its status.

    client ──connects, sends request and streams──▶ server ──fork──▶ keeper ──fork──▶ command
       ◀───────────────────────────── exit status ─────────────────────┘

A client that goes away takes its command with it: the keeper tells the command to end. Without the process that started
it the server ends, too: its standard input ends then.
"""

import marshal
import os
import select
import signal
import socket
import sys
from contextlib import suppress

STREAMS = 3
LENGTH_BYTES = 4
STATUS_BYTES = 4
MAX_REQUEST_BYTES = 1 << 20

Request = tuple[str, list[str], dict[str, str]]
"""Folder, arguments and environment."""


def load() -> None:
    """What commands load, but not the commands: each of them is loaded by the process that carries it out."""
    import ductor.cli.failures  # noqa: PLC0415 - what has no need of it must not load it
    import ductor.cli.main  # noqa: PLC0415
    import ductor.cli.output  # noqa: PLC0415
    import ductor.cli.session  # noqa: PLC0415
    import ductor.client  # noqa: PLC0415
    import ductor.journal.postgres  # noqa: F401, PLC0415


def received(connection: socket.socket) -> tuple[Request, list[int]]:
    """A client's request and its streams. ConnectionError when the client goes away meanwhile."""
    head, streams, _, _ = socket.recv_fds(connection, LENGTH_BYTES, STREAMS)
    size = int.from_bytes(head)
    if len(head) != LENGTH_BYTES or len(streams) != STREAMS or size > MAX_REQUEST_BYTES:
        raise ConnectionError("this is no request")
    body = b""
    while len(body) < size:
        part = connection.recv(size - len(body))
        if not part:
            raise ConnectionError("the client has gone")
        body += part
    request: Request = marshal.loads(body)
    return request, streams


def become(request: Request, streams: list[int]) -> None:
    """Carry a command out, as a new process would."""
    folder, arguments, environment = request
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["ductor", *arguments]
    sys.path.insert(0, "")  # as with `python -c`
    if environment.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    from ductor.cli.main import main  # noqa: PLC0415

    main()


def keep(connection: socket.socket) -> None:
    """Have a command carried out, and tell the client how it ended; have it end when the client goes away."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        request, streams = received(connection)
    except ConnectionError:
        return
    alive, held_by_command = os.pipe()
    command = os.fork()
    if command == 0:
        os.close(alive)
        connection.close()
        become(request, streams)
        return
    os.close(held_by_command)
    for stream in streams:
        os.close(stream)
    ready, _, _ = select.select([connection.fileno(), alive], [], [])
    if alive not in ready:
        os.kill(command, signal.SIGTERM)
    _, status = os.waitpid(command, 0)
    with suppress(OSError):
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(STATUS_BYTES, signed=True))
    os._exit(0)


def serve(listener: socket.socket) -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers end by themselves
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            keep(connection)
            return
        connection.close()


if __name__ == "__main__":
    del sys.path[0]  # this file's folder, which has a package `ductor` of tests
    load()
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(sys.argv[1])
        unix.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        serve(unix)
