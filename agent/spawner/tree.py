"""The processes that come from one process: finding, signalling and reaping them.

On Linux the process that uses this is a subreaper, so whatever it or its descendants start stays below it, also through
`setsid` and double forks. Elsewhere only the command's process group is known, which is weaker: a child that left the group
goes unseen.
"""

import contextlib
import os
import signal
import sys

LINUX = sys.platform == "linux"
_PR_SET_CHILD_SUBREAPER = 36
_STOP_ROUNDS = 20


def become_subreaper() -> bool:
    """Let orphans below this process become its children. False where the system has no such thing."""
    if not LINUX:
        return False
    import ctypes

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return bool(prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


class Brood:
    """Everything below this process, except the children named in `spared` and what is below those."""

    def __init__(self, spared: "frozenset[int] | set[int]" = frozenset()) -> None:
        self.spared = spared

    def alive(self) -> bool:
        return bool(self.pids())

    def pids(self) -> list[int]:
        """All descendants that are no zombies, parents first."""
        children: dict[int, list[int]] = {}
        dead = set()
        for name in os.listdir("/proc"):
            if name.isdigit() and (fact := _parent_of(name)) is not None:
                parent, state = fact
                children.setdefault(parent, []).append(int(name))
                if state in ("Z", "X"):
                    dead.add(int(name))
        found = [pid for pid in children.get(os.getpid(), ()) if pid not in self.spared]
        for pid in found:
            found.extend(children.get(pid, ()))
        return [pid for pid in found if pid not in dead]

    def terminate(self) -> None:
        for pid in self.pids():
            _send(pid, signal.SIGTERM)
            _send(pid, signal.SIGCONT)  # a stopped process would not see the TERM

    def kill(self) -> None:
        """Stop all first, so that none can fork away from under the list, then kill them."""
        stopped: set[int] = set()
        for _ in range(_STOP_ROUNDS):
            fresh = set(self.pids()) - stopped
            if not fresh:
                break
            for pid in fresh:
                _send(pid, signal.SIGSTOP)
            stopped |= fresh
        for pid in stopped:
            _send(pid, signal.SIGKILL)


class Group:
    """The process group of a command: what can be known without a subreaper."""

    def __init__(self, pgid: int) -> None:
        self.pgid = pgid

    def alive(self) -> bool:
        return self._send(0)

    def terminate(self) -> None:
        self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> bool:
        try:
            os.killpg(self.pgid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def reap() -> dict[int, int]:
    """The wait statuses of all children that ended, by pid."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def has_children() -> bool:
    """Whether any child is left, without taking its status."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def watch_children() -> int:
    """A descriptor that becomes readable when a child ends."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end


def drain(fd: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass


def _parent_of(name: str) -> "tuple[int, str] | None":
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name in parentheses may hold anything, also parentheses and blanks.
    fields = text[text.rfind(b")") + 2 :].split()
    return int(fields[1]), fields[0].decode()


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
