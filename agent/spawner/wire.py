"""The frames between claw and the supervisor of one command: four bytes of length, one byte of kind, the payload.

Claw sends one REQUEST (a JSON object), then at most the single byte CANCEL, and of a job any number of LOOK. The supervisor
answers TAKEN before it starts anything, then STARTED, any number of LIVE, HEAD, TAIL and ENDED; or FAILED. In front of either
stands BORN, which the command's process says itself before it does anything else, so that claw can end it whatever becomes of
the supervisor. Of a job LOOK is answered by LOOKED, several at once by one, and LOOKED is said once more in front of ENDED.
Either side closing the connection ends the command at once.
"""

import json
import struct

TYPE_CHECKING = False  # as in typing, whose import would be a tenth of the spawner's start-up time
if TYPE_CHECKING:
    import socket
    from typing import Any

HEADER = struct.Struct(">IB")
LIVE_HEADER = struct.Struct(">Q")
"""In front of a live sample: how many bytes of output were left out before it."""

LOOKED_HEADER = struct.Struct(">QI")
"""In front of what came since the look before: how many bytes are left out in its middle, and where that is."""

REQUEST = ord("R")
CANCEL = b"C"
LOOK = b"L"
TAKEN = ord("K")
"""With the supervisor's process id."""
BORN = ord("B")
"""With the id of the command's process, which is also its group's."""
STARTED = ord("S")
LIVE = ord("O")
LOOKED = ord("N")
HEAD = ord("H")
TAIL = ord("T")
ENDED = ord("E")
FAILED = ord("F")

SHELL_GRACE_S = 0.25
"""How long what the shell left behind may go on writing, and then how long it has between TERM and KILL."""
TERM_GRACE_S = 2.0
"""Between TERM and KILL on a time-out or a cancellation."""
KILL_PATIENCE_S = 3.0
"""How long to wait for killed processes to disappear: some cannot be killed (another user's, or stuck in the kernel)."""
SAMPLE_INTERVAL_S = 0.05
SAMPLE_BYTES = 8 * 1024


def frame(kind: int, payload: bytes) -> bytes:
    return HEADER.pack(len(payload), kind) + payload


def read_request(channel: "socket.socket") -> "dict[str, Any] | None":
    """The request, or None if claw closed the connection before it was whole."""
    header = _read_exactly(channel, HEADER.size)
    if header is None:
        return None
    length, _ = HEADER.unpack(header)
    body = _read_exactly(channel, length)
    if body is None:
        return None
    request: dict[str, Any] = json.loads(body)
    return request


def _read_exactly(channel: "socket.socket", count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        piece = channel.recv(min(count - len(data), 1 << 16))
        if not piece:
            return None
        data += piece
    return data
