"""`ductor`, carried out by the server that DUCTOR_TEST_COMMANDS names (see `command_server`): `python -IS` runs this.

Commands that serve until they are told to end, or are killed, get a process of their own, as has every command where no
server is named. This loads next to nothing.
"""

import marshal
import os
import socket
import sys

OWN_PROCESS = frozenset({"host", "worker"})
CODE = "from ductor.cli.main import main; main()"


def main() -> int:
    """The status with which the command has ended."""
    arguments = sys.argv[1:]
    environment = dict(os.environ)
    server = environment.pop("DUCTOR_TEST_COMMANDS", "")
    if not server or OWN_PROCESS.intersection(arguments[:1]):
        os.execve(sys.executable, [sys.executable, "-c", CODE, *arguments], environment)
    body = marshal.dumps((os.getcwd(), arguments, environment))  # noqa: PTH109 - pathlib takes longer to load than all else
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server)
        socket.send_fds(connection, [len(body).to_bytes(4)], [0, 1, 2])
        connection.sendall(body)
        answer = connection.recv(4)
    if len(answer) != 4:
        raise SystemExit("the server of commands has gone")
    return int.from_bytes(answer, signed=True)


if __name__ == "__main__":
    status = main()
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)
