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
        return [process.pid for process in self._processes()]

    def terminate(self) -> None:
        self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)  # a stopped process would not see the TERM

    def kill(self) -> None:
        """One round: call it until nothing is alive, since a process may have started another meanwhile."""
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        """Signal whole groups: the kernel does that in one go, so that no member can fork away from it."""
        for group in {process.group for process in self._processes()}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)

    def _processes(self) -> "list[_Process]":
        own_group = os.getpgrp()
        children: dict[int, list[_Process]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit() and (process := _look_up(name)) is not None:
                children.setdefault(process.parent, []).append(process)
        found = [process for process in children.get(os.getpid(), ()) if process.pid not in self.spared]
        for process in found:
            found.extend(children.get(process.pid, ()))
        # A supervisor's own group is never a command's: commands start in a new session.
        return [process for process in found if process.state not in "ZX" and process.group != own_group]


class _Process:
    def __init__(self, pid: int, state: str, parent: int, group: int) -> None:
        self.pid = pid
        self.state = state
        self.parent = parent
        self.group = group


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


def _look_up(name: str) -> "_Process | None":
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name in parentheses may hold anything, also parentheses and blanks.
    state, parent, group, _ = text[text.rfind(b")") + 2 :].split(None, 3)
    return _Process(int(name), state.decode(), int(parent), int(group))
