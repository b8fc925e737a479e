"""How a command's process comes to be: without terminal and input, everything it says in one pipe; or why it does not."""

import json
import os
import socket
import subprocess

from agent.spawner import wire

TYPE_CHECKING = False  # as in typing, whose import would be a tenth of the spawner's start-up time
if TYPE_CHECKING:
    from typing import Any

_PATIENCE_S = 1.0


def refuse(channel: socket.socket, error: OSError) -> None:
    """Say that no supervisor can be started for a command."""
    with channel:
        channel.settimeout(_PATIENCE_S)
        try:
            wire.read_request(channel)  # what is not read would be an error over there, and hide the answer
            channel.sendall(failed(error))
        except OSError:
            pass


def failed(error: OSError | ValueError) -> bytes:
    """The frame that says why a command was not started."""
    facts = {
        "error": getattr(error, "strerror", None) or str(error),
        "errno": getattr(error, "errno", None),
        "path": os.fsdecode(getattr(error, "filename", None) or ""),
    }
    return wire.frame(wire.FAILED, json.dumps(facts).encode())


def start(request: "dict[str, Any]", channel: socket.socket) -> "tuple[subprocess.Popen[bytes], int]":
    """The command's process, in a session of its own, and where its output can be read without waiting. It says on the
    channel that it is born.

    Raises:
        OSError, ValueError: it cannot be started.
    """
    read_end, write_end = os.pipe()
    try:
        process = subprocess.Popen(
            request["argv"],
            cwd=request["cwd"],
            env=request["env"],
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            start_new_session=True,
            preexec_fn=lambda: channel.sendall(wire.frame(wire.BORN, json.dumps(os.getpid()).encode())),
        )
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    os.set_blocking(read_end, False)
    return process, read_end
