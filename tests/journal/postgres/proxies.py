"""Two things that stand between a store and its server: one that loses answers, one that pools transactions."""

import asyncio
import hashlib
import struct
from typing import Self
from urllib.parse import parse_qs, urlsplit

WAIT_S = 30.0
STARTUP_VERSION = 196_608
SSL_REQUEST = 80_877_103


class Proxy:
    """Listens on a loopback port and speaks to a server's socket. `dsn` is the address for clients."""

    def __init__(self, server_dsn: str) -> None:
        parts = urlsplit(server_dsn)
        query = parse_qs(parts.query)
        self.database = parts.path.removeprefix("/")
        self.socket = f"{query['host'][0]}/.s.PGSQL.{query['port'][0]}"
        self.dsn = ""
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._listener.sockets[0].getsockname()[1]
        self.dsn = f"postgresql://postgres@127.0.0.1:{port}/{self.database}?sslmode=disable"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class CuttingProxy(Proxy):
    """Passes everything on, until told otherwise. Clients of a server that is away are cut off.

    `is_mute`: the server's answers are swallowed. `is_refusing`: new connections are closed at once.
    """

    def __init__(self, server_dsn: str) -> None:
        super().__init__(server_dsn)
        self.is_mute = False
        self.is_refusing = False
        self.passed = 0
        self._swallowed = asyncio.Event()
        self._is_flowing = asyncio.Event()
        self._is_flowing.set()
        self._clients: set[asyncio.StreamWriter] = set()

    async def until_swallowed(self) -> None:
        """Wait until the server has answered into the void."""
        async with asyncio.timeout(WAIT_S):
            await self._swallowed.wait()

    def cut(self) -> None:
        """Cut all clients off. The server is not told."""
        for writer in list(self._clients):
            writer.transport.abort()
        self._swallowed.clear()

    def stall(self) -> None:
        """Keep everything back, in both directions, with all connections open."""
        self._is_flowing.clear()

    def flow(self) -> None:
        """Pass on what was kept back, and all that follows."""
        self._is_flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_refusing:
            writer.close()
            return
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self.socket)
        except OSError:
            writer.transport.abort()
            return
        self._clients.add(writer)
        answers = asyncio.create_task(self._pass_answers(server_reader, writer))
        try:
            while data := await reader.read(65_536):
                await self._is_flowing.wait()
                self.passed += 1
                server_writer.write(data)
            server_writer.close()
        except ConnectionError:
            # the client was cut off or killed: the server goes on with what it has, and is heard to its end
            if server_writer.can_write_eof() and not server_writer.is_closing():
                server_writer.write_eof()
            await answers
        finally:
            self._clients.discard(writer)
            answers.cancel()
            server_writer.close()
            writer.close()

    async def _pass_answers(self, server_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await server_reader.read(65_536):
                await self._is_flowing.wait()
                if self.is_mute:
                    self._swallowed.set()
                elif not writer.is_closing():
                    writer.write(data)
        except ConnectionError:
            writer.transport.abort()  # the server was killed
        writer.close()


class ServerConnection:
    """One connection of the pool, and which statements were prepared on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.greeting = b""
        self.statements: set[bytes] = set()


class PooledTransaction:
    """What passes between a client and a server connection from one request to the end of its transaction."""

    def __init__(self, server: ServerConnection, client: asyncio.StreamWriter) -> None:
        self.has_ended = asyncio.Event()
        self._server = server
        self._client = client
        self._syncs = 0
        self._skipped = 0
        self._tasks = [asyncio.create_task(self._pass_answers()), asyncio.create_task(self.has_ended.wait())]

    def send(self, ours: bytes, skipped: int, messages: bytes) -> None:
        """Answer some ourselves, and send the others on."""
        self._client.write(ours)
        self._skipped += skipped
        self._syncs += messages[:1] in {b"S", b"Q"}
        self._server.writer.write(messages)

    async def until_ended_or(self, upcoming: "asyncio.Task[tuple[bytes, bytes]]") -> None:
        """Wait for the end of the transaction or the client's next message. Raises what broke either side."""
        done, _ = await asyncio.wait([upcoming, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {self._tasks[1]}:
            if task.exception() is not None and not self.has_ended.is_set():
                task.result()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _pass_answers(self) -> None:
        while not self.has_ended.is_set():
            kind, data = await read_message(self._server.reader)
            if kind == b"1" and self._skipped:
                self._skipped -= 1
                continue
            self._client.write(frame(kind, data))
            if kind == b"Z":
                self._syncs -= 1
                if data == b"I" and not self._syncs:
                    self.has_ended.set()


class PoolingProxy(Proxy):
    """A transaction pooler: `size` server connections for any number of clients, given back when a transaction ends.

    `tracks_statements`: named prepared statements follow their client to whichever connection it gets.
    """

    def __init__(self, server_dsn: str, *, size: int, tracks_statements: bool) -> None:
        super().__init__(server_dsn)
        self._size = size
        self._tracks_statements = tracks_statements
        self._idle: asyncio.Queue[ServerConnection] = asyncio.Queue()
        self._all: list[ServerConnection] = []
        self.handovers = 0

    async def __aenter__(self) -> Self:
        for _ in range(self._size):
            connection = await self._connect()
            self._all.append(connection)
            self._idle.put_nowait(connection)
        return await super().__aenter__()

    async def __aexit__(self, *arguments: object) -> None:
        await super().__aexit__(*arguments)
        for connection in self._all:
            connection.writer.close()

    async def _connect(self) -> ServerConnection:
        connection = ServerConnection(*await asyncio.open_unix_connection(self.socket))
        body = b"".join(f"{text}\0".encode() for text in ("user", "postgres", "database", self.database)) + b"\0"
        connection.writer.write(struct.pack("!II", len(body) + 8, STARTUP_VERSION) + body)
        while True:
            kind, data = await read_message(connection.reader)
            connection.greeting += frame(kind, data)
            if kind == b"Z":
                return connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            (size, code) = struct.unpack("!II", await reader.readexactly(8))
            if code != STARTUP_VERSION:
                return
            startup = await reader.readexactly(size - 8)
            assert b"enable_seqscan" not in startup, "a pooler refuses settings in the startup message"
            writer.write(self._all[0].greeting)
            await self._serve_transactions(reader, writer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def _serve_transactions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        statements: dict[bytes, bytes] = {}
        upcoming = asyncio.create_task(read_message(reader))
        try:
            while (await asyncio.wait([upcoming]), upcoming.result()[0])[1] != b"X":
                server = await self._idle.get()
                self.handovers += 1
                transaction = PooledTransaction(server, writer)
                try:
                    while not transaction.has_ended.is_set():
                        if upcoming.done():
                            transaction.send(*self._translate(server, *upcoming.result(), statements))
                            upcoming = asyncio.create_task(read_message(reader))
                        await transaction.until_ended_or(upcoming)
                finally:
                    self._idle.put_nowait(server if transaction.has_ended.is_set() else await self._replace(server))
                    transaction.close()
        finally:
            upcoming.cancel()

    async def _replace(self, server: ServerConnection) -> ServerConnection:
        """A fresh connection for one whose client vanished in mid-transaction."""
        server.writer.close()
        fresh = await self._connect()
        self._all.append(fresh)
        return fresh

    def _translate(
        self, server: ServerConnection, kind: bytes, data: bytes, statements: dict[bytes, bytes]
    ) -> tuple[bytes, int, bytes]:
        """What to answer ourselves, how many answers to skip, and what to send on."""
        if not self._tracks_statements or kind not in b"PBDC" or (kind in b"DC" and data[:1] != b"S"):
            return b"", 0, frame(kind, data)
        if kind == b"P":
            name, rest = data.split(b"\0", 1)
            if not name:
                return b"", 0, frame(kind, data)
            statements[name] = rest
            ours = server_name(rest)
            if ours in server.statements:
                return frame(b"1", b""), 0, b""
            server.statements.add(ours)
            return b"", 0, frame(b"P", ours + b"\0" + rest)
        if kind == b"C":
            statements.pop(data[1:-1], None)
            return frame(b"3", b""), 0, b""
        head, name, rest = split_name(kind, data)
        if not name:
            return b"", 0, frame(kind, data)
        ours = server_name(statements[name])
        parse = b""
        if ours not in server.statements:
            server.statements.add(ours)
            parse = frame(b"P", ours + b"\0" + statements[name])
        return b"", bool(parse), parse + frame(kind, head + ours + b"\0" + rest)


def server_name(statement: bytes) -> bytes:
    """A name that means the same statement on every connection."""
    return b"pooled_" + hashlib.sha256(statement).hexdigest()[:16].encode()


def split_name(kind: bytes, data: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands before a statement's name, the name, and the rest, of Bind or Describe."""
    if kind == b"D":
        return data[:1], data[1:-1], b""
    portal, name, rest = data.split(b"\0", 2)
    return portal + b"\0", name, rest


async def read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """One message: its kind and its content."""
    kind, size = struct.unpack("!cI", await reader.readexactly(5))
    return kind, await reader.readexactly(size - 4)


def frame(kind: bytes, data: bytes) -> bytes:
    """A message as it is sent."""
    return kind + struct.pack("!I", len(data) + 4) + data
