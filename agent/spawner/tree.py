"""The processes that come from one process: finding, signalling and reaping them.

On Linux the process that uses this is a subreaper, so whatever it or its descendants start stays below it, also through
`setsid` and double forks. Elsewhere only the command's process group is known, which is weaker: a child that left the group
goes unseen.
"""

import contextlib
import os
import signal
import sys
import time

TYPE_CHECKING = False  # as in typing, whose import would be a tenth of the spawner's start-up time
if TYPE_CHECKING:
    from collections.abc import Callable

LINUX = sys.platform == "linux"
_PR_SET_CHILD_SUBREAPER = 36
_CHASES = 256


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
        self._told: dict[int, tuple[int, int]] = {}
        """Who got its TERM: pid → when it was born and when it was told, in ticks since the machine started."""

    def alive(self) -> bool:
        return bool(self.pids())

    def pids(self) -> list[int]:
        """All descendants that are no zombies, parents first."""
        return [process.pid for process in self._processes()]

    def terminate(self) -> None:
        """One round: call it while the grace lasts, since a process may be born while the others are told, or detach itself.

        Parents come first, so that on a busy machine they do not start more meanwhile. Each gets its TERM once. What a process
        that was told, and lives, starts afterwards gets none: so cleaning up works.
        """
        found = self._processes()
        new = self._untold(found)
        due = {process.pid for process in new}
        now = _ticks()
        split = {process.group for process in found if process.pid not in due}
        for group in dict.fromkeys(process.group for process in new if process.group not in split):
            # The kernel does that in one go, so that no member can fork away from it.
            _signal(os.killpg, group, signal.SIGTERM)
            _signal(os.killpg, group, signal.SIGCONT)  # a stopped process would not see the TERM
        for process in new:
            self._told[process.pid] = (process.born, now)
            # One that detached itself between the look and the signal to its group has missed it.
            if process.group in split or _group_of(process.pid) not in (process.group, None):
                _signal(os.kill, process.pid, signal.SIGTERM)
                _signal(os.kill, process.pid, signal.SIGCONT)

    def _untold(self, found: "list[_Process]") -> "list[_Process]":
        """Who of these, parents first, is to get its TERM now."""
        new: list[_Process] = []
        cleaning: set[int] = set()
        for process in found:
            _, parent_told = self._told.get(process.parent, (0, None))
            if process.parent in cleaning or (parent_told is not None and process.born >= parent_told):
                cleaning.add(process.pid)
            elif process.pid not in self._told or self._told[process.pid][0] != process.born:
                new.append(process)
        return new

    def kill(self) -> None:
        """One round: call it until nothing is alive, since a process may have started another meanwhile."""
        self.kill_groups()
        self._chase()

    def kill_groups(self) -> None:
        """As `kill`, but it spares the children that are in this process's own group."""
        for group in dict.fromkeys(process.group for process in self._processes()):
            _signal(os.killpg, group, signal.SIGKILL)

    def _chase(self) -> None:
        """Kill orphans as they come, quicker than they fork: a chain of them outruns any search through all processes."""
        killed = set(self.spared)
        for _ in range(_CHASES):
            new = [pid for pid in _children() if pid not in killed]
            if not new:
                return
            for pid in new:
                _signal(os.kill, pid, signal.SIGKILL)
            killed.update(new)

    def _processes(self) -> "list[_Process]":
        own_group = os.getpgrp()
        children = _by_parent()
        found = [process for process in children.get(os.getpid(), ()) if process.pid not in self.spared]
        for process in found:
            found.extend(children.get(process.pid, ()))
        # A supervisor's own group is never a command's: commands start in a new session.
        return [process for process in found if process.state not in "ZX" and process.group != own_group]


class _Process:
    def __init__(self, pid: int, state: str, parent: int, group: int, born: int) -> None:
        self.pid = pid
        self.state = state
        self.parent = parent
        self.group = group
        self.born = born


class Group:
    """The process group of a command: what can be known without a subreaper."""

    def __init__(self, pgid: int) -> None:
        self.pgid = pgid
        self._told = False

    def alive(self) -> bool:
        return self._send(0)

    def terminate(self) -> None:
        if not self._told:
            self._told = True
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


def below(pid: int) -> list[int]:
    """All descendants of a process, parents first; empty where the system does not tell."""
    if not LINUX:
        return []
    children = _by_parent()
    found = list(children.get(pid, ()))
    for process in found:
        found.extend(children.get(process.pid, ()))
    return [process.pid for process in found]


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


def _by_parent() -> "dict[int, list[_Process]]":
    """Every process that can be seen."""
    children: dict[int, list[_Process]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := _look_up(name)) is not None:
            children.setdefault(process.parent, []).append(process)
    return children


def _look_up(name: str) -> "_Process | None":
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name in parentheses may hold anything, also parentheses and blanks.
    state, parent, group, *rest = text[text.rfind(b")") + 2 :].split(None, 20)
    return _Process(int(name), state.decode(), int(parent), int(group), int(rest[16]))


def _children() -> list[int]:
    """The direct children, zombies too, at a hundredth of the cost of looking through all processes; empty where unknown."""
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(each) for each in file.read().split()]
    except OSError:
        return []


def _group_of(pid: int) -> int | None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        return os.getpgid(pid)
    return None


def _ticks() -> int:
    """Now, in the unit and from the beginning that the kernel counts a process's birth from."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def _signal(send: "Callable[[int, int], None]", number: int, signal_number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(number, signal_number)
