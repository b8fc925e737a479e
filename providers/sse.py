"""Server-sent events from the bytes of a response, however these are cut. Knows no model's protocol.

Lines end with LF, CRLF or CR and nothing else (not with U+2028, which may stand in data).
"""

from providers.errors import ProtocolError

MAX_EVENT_BYTES = 64 * 1024 * 1024
_START_BYTES = 400

SseEvent = tuple[str, bytes]
"""(event name, data); the name is "" where the server gave none."""


class SseDecoder:
    """Feed it chunks; it gives the events that they complete. A chunk that completes none still proves that the server lives."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._after_cr = False
        self._fresh = True
        self._max_event_bytes = max_event_bytes
        self.start = b""
        """The first bytes of the response, to show when it turns out to be something else."""
        self.events = 0
        """How many events came so far."""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events completed by `chunk`, in order.

        Raises:
            ProtocolError: one event is larger than the limit.
        """
        if len(self.start) < _START_BYTES:
            self.start = (self.start + chunk)[:_START_BYTES]
        chunk = self._with_plain_line_ends(chunk)
        buffer = self._buffer
        buffer += chunk
        end = buffer.rfind(b"\n\n", max(0, self._searched - 1))
        if end < 0:
            self._searched = len(buffer)
            self._check_size()
            return []
        blocks = bytes(buffer[:end]).split(b"\n\n")
        del buffer[: end + 2]
        self._searched = len(buffer)
        self._check_size()
        return self._events(blocks)

    def flush(self) -> list[SseEvent]:
        """The event that the end of the response cut off before its blank line, if it has any data."""
        block = bytes(self._buffer)
        self._buffer.clear()
        self._searched = 0
        return self._events([block]) if block else []

    def _with_plain_line_ends(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _check_size(self) -> None:
        if len(self._buffer) > self._max_event_bytes:
            raise ProtocolError(f"The server sent an event of more than {self._max_event_bytes // 1_048_576} MiB.")

    def _events(self, blocks: list[bytes]) -> list[SseEvent]:
        if self._fresh:
            blocks[0] = blocks[0].removeprefix(b"\xef\xbb\xbf")
            self._fresh = False
        found = []
        for block in blocks:
            # Nearly all events are one `event` and one `data` line: that shape is taken apart without a loop.
            if block.startswith(b"event: "):
                name, _, rest = block[7:].partition(b"\n")
                if rest.startswith(b"data: ") and b"\n" not in rest:
                    found.append((name.decode("utf-8", "replace"), rest[6:]))
                    continue
            event = _parse(block)
            if event is not None:
                found.append(event)
        self.events += len(found)
        return found


def _parse(block: bytes) -> SseEvent | None:
    """One event, field by field; None for comments and for an event without data."""
    name = ""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value.decode("utf-8", "replace")
        elif field == b"data":
            data.append(value)
    return (name, b"\n".join(data)) if data else None
