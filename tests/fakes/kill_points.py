"""Runs a piece of Python in a fork of a warm process and kills it with SIGKILL right before its N-th system call that
changes something (Linux).

A seccomp filter stops the process at these calls and nowhere else, so it needs no tracer and costs next to nothing: a
keeper is told of each, counts those of the process itself (all its threads, none of its children) and lets it go on, or
kills it there and the call is never made. The keeper is a subreaper: whatever the process leaves behind comes to it and
is reported. Run as a module it is the warm process: it reads one JSON object a line and writes one for each.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import gc
import importlib
import itertools
import json
import os
import platform
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.agent.processes.marks import children_of, runs

SIDE_FD = 900
"""Writing to this descriptor does not count: what a test's script notes on the side."""
NEVER = 1 << 40
_NUMBERS = {
    "x86_64": {
        "write": 1, "pwrite64": 18, "writev": 20, "pwritev": 296, "fsync": 74, "fdatasync": 75, "ftruncate": 77,
        "fallocate": 285, "rename": 82, "renameat": 264, "renameat2": 316, "unlink": 87, "unlinkat": 263, "mkdir": 83,
        "mkdirat": 258, "link": 86, "linkat": 265, "flock": 73, "fchmod": 91, "sendto": 44, "sendmsg": 46, "openat": 257,
    },
    "aarch64": {
        "write": 64, "pwrite64": 68, "writev": 66, "pwritev": 70, "fsync": 82, "fdatasync": 83, "ftruncate": 46,
        "fallocate": 47, "renameat": 38, "renameat2": 276, "unlinkat": 35, "mkdirat": 34, "linkat": 37, "flock": 32,
        "fchmod": 52, "sendto": 206, "sendmsg": 211, "openat": 56,
    },
}  # fmt: skip
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD, _EQUALS, _HAS_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_PATIENCE_S = 20.0


class Ended(msgspec.Struct, frozen=True):
    """How one run ended."""

    id: int
    calls: int
    """How many calls it made, the one it was killed before included."""
    killed_at: str
    """The call it was killed before; empty: it came to its end."""
    exit_code: int
    survivors: tuple[str, ...]
    """Command lines of what it left running for more than five seconds."""


def missing() -> str:
    """Why it cannot be done here; empty: it can."""
    if sys.platform != "linux" or platform.machine() not in _NUMBERS:
        return "Linux on x86-64 or ARM64 is needed"
    with contextlib.suppress(OSError):
        if "user_notif" in Path("/proc/sys/kernel/seccomp/actions_avail").read_text():
            return ""
    return "the kernel's seccomp cannot notify"


# ------------------------------------------------------------------ the test's side


class KillPoints:
    """The warm process. Several runs at a time are fine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Ended]] = {}
        self._reader = asyncio.create_task(self._read(), name="kill points")

    async def run(
        self, script: str, argument: Any, kill_at: int, *, cwd: Path, env: Mapping[str, str], errors: Path
    ) -> Ended:
        """Call `script` ("module:function") with a JSON value; what it writes to standard error goes to a file."""
        id_ = next(self._ids)
        future = self._waiting[id_] = asyncio.get_running_loop().create_future()
        asked = {
            "id": id_, "script": script, "argument": argument, "kill_at": kill_at, "cwd": str(cwd), "env": dict(env),
            "errors": str(errors),
        }  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        return await asyncio.wait_for(future, 60)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            ended = msgspec.json.decode(line, type=Ended)
            self._waiting.pop(ended.id).set_result(ended)

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reader


@asynccontextmanager
async def kill_points(env: Mapping[str, str], *modules: str) -> AsyncIterator[KillPoints]:
    """The warm process, with these modules imported."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, *modules, cwd=Path(__file__).parents[2], env=env,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    points = KillPoints(process)
    try:
        yield points
    finally:
        await points.close()


# ------------------------------------------------------------------ the warm process


def _serve(modules: Sequence[str]) -> None:
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are not waited for
    for line in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os._exit(_keep(json.loads(line)))


def _keep(asked: Mapping[str, Any]) -> int:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    ours, theirs = socket.socketpair()
    if (pid := os.fork()) == 0:
        ours.close()
        _become(asked, theirs)
    theirs.close()
    _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
    ended = _Keeper(pid, listener, asked["kill_at"]).run(asked["id"])
    os.write(1, msgspec.json.encode(ended) + b"\n")
    return 0


def _become(asked: Mapping[str, Any], keeper: socket.socket) -> None:
    """Be the process that is to be killed; does not return."""
    code = 1
    nowhere = os.open(os.devnull, os.O_RDWR)
    errors = os.open(asked["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, descriptor in enumerate((nowhere, nowhere, errors)):
        os.dup2(descriptor, number)
    try:
        os.setsid()
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["env"])
        module, _, name = asked["script"].partition(":")
        script = getattr(importlib.import_module(module), name)
        os.dup2(keeper.fileno(), SIDE_FD)  # the keeper can answer nothing before it has this
        with socket.socket(fileno=SIDE_FD) as side:
            listener = _install_filter()
            socket.send_fds(side, [b"x"], [listener])
        os.close(listener)
        script(asked["argument"])
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


class _Keeper:
    """Watches one process until nothing of it is left."""

    def __init__(self, pid: int, listener: int, kill_at: int) -> None:
        self._pid = pid
        self._listener = listener
        self._kill_at = kill_at
        self._names = {number: name for name, number in _NUMBERS[platform.machine()].items()}
        self._threads = {pid}
        self._others: set[int] = set()
        self._calls = 0
        self._killed_at = ""
        self._status: int | None = None

    def run(self, id_: int) -> Ended:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        deadline = None
        while self._reap():
            ready = poll.poll(2)
            if any(event & select.POLLIN for _, event in ready):
                self._take()
            elif ready:  # nobody is left who could be stopped
                poll.unregister(self._listener)
            if self._status is not None:
                deadline = deadline or time.monotonic() + _PATIENCE_S
                if time.monotonic() > deadline:
                    break
        survivors = tuple(self._end_rest())
        code = 0 if self._status is None else os.waitstatus_to_exitcode(self._status)
        return Ended(id_, self._calls, self._killed_at, code, survivors)

    def _reap(self) -> bool:
        """Take in who has ended; False when nobody is left."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._pid:
                    self._status = status
        return False

    def _take(self) -> None:
        told = bytearray(80)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, told)
        except OSError:  # it was killed by somebody else meanwhile
            return
        cookie, thread, _, number = struct.unpack_from("=QIIi", told)
        if self._is_own(thread):
            self._calls += 1
            if self._calls == self._kill_at:
                self._killed_at = self._names[number]
                os.kill(self._pid, signal.SIGKILL)
                return
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._listener, _ANSWER, struct.pack("=QqiI", cookie, 0, 0, 1))

    def _is_own(self, thread: int) -> bool:
        if thread not in self._threads and thread not in self._others:
            own = Path(f"/proc/{self._pid}/task/{thread}").exists()
            (self._threads if own else self._others).add(thread)
        return thread in self._threads

    def _end_rest(self) -> list[str]:
        found = []
        while left := [pid for pid in children_of(os.getpid()) if runs(pid)]:
            for pid in left:
                with contextlib.suppress(OSError):
                    found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
            self._reap()
        return found


# ------------------------------------------------------------------ the filter


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("value", ctypes.c_uint))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction)))


def _install_filter() -> int:
    """Stop this process, and those it starts, at the counted calls; the descriptor that is told of them."""
    numbers = dict(_NUMBERS[platform.machine()])
    openat = numbers.pop("openat")
    counted = list(numbers.values())
    # nr; openat → does it make a file?; counted → to SIDE_FD?; anything else → allow
    instructions = [(_LOAD, 0, 0, 0), (_EQUALS, len(counted) + 1, 0, openat)]
    instructions += [(_EQUALS, len(counted) + 2 - at, 0, number) for at, number in enumerate(counted)]
    instructions += [
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, 32),
        (_HAS_BITS, 2, 3, os.O_CREAT),
        (_LOAD, 0, 0, 16),
        (_EQUALS, 1, 0, SIDE_FD),
        (_RETURN, 0, 0, _NOTIFY),
        (_RETURN, 0, 0, _ALLOW),
    ]
    array = (_Instruction * len(instructions))(*(_Instruction(*each) for each in instructions))
    program = _Program(len(instructions), array)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    listener: int = libc.syscall(_SECCOMP[platform.machine()], 1, 8, ctypes.byref(program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return listener


if __name__ == "__main__":
    _serve(sys.argv[1:])
