"""A real HTTP server on the loopback interface that plays scripted replies and records what it was asked.

It knows HTTP and no model's protocol: `anthropic_wire` and `responses_wire` beside it build replies and judge requests.
Threads only, so that it serves synchronous tests, asyncio tests and other processes alike.
"""

import http.client
import json
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import msgspec

if TYPE_CHECKING:
    from tests.fakes.anthropic_wire import AnthropicWire
    from tests.fakes.chat_wire import ChatWire
    from tests.fakes.responses_wire import ResponsesWire

End = Literal["complete", "fin", "rst", "stall"]
_MAX_BODY_BYTES = 64 * 1024 * 1024


class Chunk(msgspec.Struct, frozen=True):
    """Bytes to send, after `delay_s`, and not before the event `after` is set."""

    data: bytes
    delay_s: float = 0.0
    after: threading.Event | None = None


class Reply(msgspec.Struct, frozen=True):
    """One scripted answer. Each chunk is written to the socket on its own."""

    chunks: tuple[Chunk, ...] = ()
    status: int = 200
    headers: dict[str, str] = msgspec.field(
        default_factory=lambda: {"content-type": "text/event-stream; charset=utf-8"}
    )
    end: End = "complete"
    """complete: the body ends as HTTP wants. fin, rst: the connection is cut before that. stall: silence from here on."""
    framing: Literal["chunked", "close"] = "chunked"
    """close: the body has no length and ends with the connection, so that `complete` and `fin` look the same."""
    before_headers_s: float = 0.0
    never_answer: bool = False
    """Not even a status line is sent."""
    head: bytes = b""
    """Sent instead of status line and headers, where given."""


class RecordedRequest(msgspec.Struct, frozen=True, eq=False):
    method: str
    path: str
    """Without the query."""
    query: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    arrived_s: float
    """By the monotonic clock, when the body was read whole."""
    client_left: threading.Event
    """Set when the client closed the connection before the reply was over."""

    @property
    def json(self) -> Any:
        """The parsed body; raises ValueError where it is no JSON."""
        return json.loads(self.body)


Script = Reply | Callable[[RecordedRequest], Reply]
Judge = Callable[[RecordedRequest], Reply | None]


def stream_reply(*chunks: bytes | Chunk, end: End = "complete", delay_s: float = 0.0) -> Reply:
    """A reply of server-sent events; `delay_s` stands before each plain chunk."""
    made = tuple(c if isinstance(c, Chunk) else Chunk(c, delay_s) for c in chunks)
    return Reply(made, end=end)


def json_reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    body = json.dumps(value).encode()
    return Reply((Chunk(body),), status, {"content-type": "application/json", **(headers or {})})


def pieces(data: bytes, size: int) -> tuple[Chunk, ...]:
    """`data` cut into chunks of `size` bytes, wherever that falls."""
    return tuple(Chunk(data[at : at + size]) for at in range(0, len(data), size))


class _ClientLeftError(Exception):
    pass


class ModelServer:
    """Use as a context manager. Leaving it closes every connection and raises if a script failed."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._wake_read, self._wake_write = socket.socketpair()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[RecordedRequest] = []
        self.failures: list[str] = []
        self._queues: dict[str, deque[Script]] = {}
        self._always: dict[str, Script] = {}
        self._judges: dict[str, Judge] = {}
        self._changed = threading.Condition()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._acceptor = threading.Thread(target=self._accept, name="model-server")
        self._closing = False

    # ------------------------------------------------------------------ scripting

    @cached_property
    def anthropic(self) -> "AnthropicWire":
        from tests.fakes.anthropic_wire import AnthropicWire

        return AnthropicWire(self)

    @cached_property
    def chat(self) -> "ChatWire":
        from tests.fakes.chat_wire import ChatWire

        return ChatWire(self)

    @cached_property
    def responses(self) -> "ResponsesWire":
        from tests.fakes.responses_wire import ResponsesWire

        return ResponsesWire(self)

    def queue(self, path: str, *scripts: Script) -> None:
        """Add answers for `path`, each used once, in order."""
        with self._changed:
            self._queues.setdefault(path, deque()).extend(scripts)

    def always(self, path: str, script: Script) -> None:
        """What answers `path` when its queue is empty."""
        self._always[path] = script

    def judge(self, path: str, judge: Judge) -> None:
        """Look at each request to `path` first; a reply of the judge is sent and the queue stays as it is."""
        self._judges[path] = judge

    def forget(self, path: str) -> None:
        """Drop the answers that are still queued for `path`."""
        with self._changed:
            self._queues.pop(path, None)

    def queued(self, path: str) -> int:
        return len(self._queues.get(path, ()))

    def to(self, path: str) -> list[RecordedRequest]:
        """The requests to `path`, in the order of their arrival."""
        return [request for request in list(self.requests) if request.path == path]

    def wait_for_requests(self, count: int, timeout_s: float = 40.0) -> None:
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self.requests) >= count, timeout_s)
        if not arrived:
            raise TimeoutError(f"{len(self.requests)} of {count} requests arrived in {timeout_s} s")

    # ------------------------------------------------------------------ life

    def start(self) -> "ModelServer":
        self._acceptor.start()
        return self

    def close(self) -> None:
        self._closing = True
        self._wake_write.close()
        self._acceptor.join()
        self._listener.close()
        for connection, thread in list(self._connections.items()):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join()
        self._wake_read.close()

    def __enter__(self) -> "ModelServer":
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
        if error is None and self.failures:
            raise AssertionError("; ".join(self.failures))

    def _accept(self) -> None:
        while True:
            ready, _, _ = select.select([self._listener, self._wake_read], [], [])
            if self._closing:
                return
            if self._listener in ready:
                connection, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(connection,), name="model-server-connection")
                self._connections[connection] = thread
                thread.start()

    # ------------------------------------------------------------------ one connection

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # An OSError means that this server or the client is going away.
        with suppress(OSError), connection, connection.makefile("rb") as stream:
            while self._await_bytes(connection):
                request = _read_request(stream)
                if request is None or not self._answer(connection, request):
                    break
        self._connections.pop(connection, None)

    def _await_bytes(self, connection: socket.socket) -> bool:
        ready, _, _ = select.select([connection, self._wake_read], [], [])
        return connection in ready and not self._closing

    def _answer(self, connection: socket.socket, request: RecordedRequest) -> bool:
        """Send the reply; False if the connection ends with it."""
        reply = self._choose(request)
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        try:
            return self._play(connection, reply)
        except (ConnectionError, _ClientLeftError):
            request.client_left.set()
            return False

    def _choose(self, request: RecordedRequest) -> Reply:
        try:
            judge = self._judges.get(request.path)
            if judge is not None and (verdict := judge(request)) is not None:
                return verdict
            with self._changed:
                queue = self._queues.get(request.path)
                script = queue.popleft() if queue else self._always.get(request.path)
            if script is None:
                self.failures.append(f"no reply is scripted for {request.method} {request.path}")
                return _failure(400, self.failures[-1])
            return script if isinstance(script, Reply) else script(request)
        except Exception as error:
            self.failures.append(f"the script for {request.path} failed: {error!r}")
            return _failure(400, self.failures[-1])

    def _play(self, connection: socket.socket, reply: Reply) -> bool:
        if reply.never_answer:
            self._pause(connection, None)
        self._pause(connection, reply.before_headers_s)
        connection.sendall(reply.head or _head(reply))
        for chunk in reply.chunks:
            self._pause(connection, chunk.delay_s)
            while chunk.after is not None and not chunk.after.is_set():
                self._pause(connection, 0.005)
            if chunk.data and reply.framing == "chunked":
                connection.sendall(b"%x\r\n%b\r\n" % (len(chunk.data), chunk.data))
            elif chunk.data:
                connection.sendall(chunk.data)
        return self._finish(connection, reply)

    def _finish(self, connection: socket.socket, reply: Reply) -> bool:
        if reply.end == "stall":
            self._pause(connection, None)
        if reply.end == "rst":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if reply.end == "fin" or reply.framing == "close":
            return False
        connection.sendall(b"0\r\n\r\n")
        return True

    def _pause(self, connection: socket.socket, seconds: float | None) -> None:
        """Wait, or for ever with None; ends at once when the client leaves or the server closes."""
        if seconds is not None and seconds <= 0:
            return
        ready, _, _ = select.select([connection, self._wake_read], [], [], seconds)
        if self._wake_read in ready:
            raise OSError("the server is closing")
        if connection in ready:
            if connection.recv(1, socket.MSG_PEEK) == b"":
                raise _ClientLeftError
            raise OSError("a second request before the reply was over")


def _read_request(stream: BinaryIO) -> RecordedRequest | None:
    line = stream.readline(65_536).decode("latin-1").split()
    if len(line) != 3 or not line[2].startswith("HTTP/"):
        return None
    headers = {name.lower(): value for name, value in http.client.parse_headers(stream).items()}
    length = min(int(headers.get("content-length", "0")), _MAX_BODY_BYTES)
    body = stream.read(length)
    if len(body) < length:
        return None  # the client ended in the middle of it
    path, _, query = line[1].partition("?")
    return RecordedRequest(line[0], path, query, headers, body, time.monotonic(), threading.Event())


def _head(reply: Reply) -> bytes:
    framing = "transfer-encoding: chunked" if reply.framing == "chunked" else "connection: close"
    reason = http.client.responses.get(reply.status, "Unknown")
    fields = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
    return f"HTTP/1.1 {reply.status} {reason}\r\n{fields}{framing}\r\n\r\n".encode("latin-1")


def _failure(status: int, message: str) -> Reply:
    return json_reply({"type": "error", "error": {"type": "invalid_request_error", "message": message}}, status)
