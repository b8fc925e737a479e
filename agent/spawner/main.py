"""The spawner's loop: forks one supervisor for each connection that claw hands over, and adopts what a dead one left.

It ends when claw's end of the control connection closes, after its supervisors have ended their trees. A supervisor that was
killed leaves its processes to the spawner, which kills them.
"""

import os
import select
import signal
import socket
import time

from agent.spawner.supervisor import supervise
from agent.spawner.tree import Brood, become_subreaper, drain, reap, watch_children
from agent.spawner.wire import KILL_PATIENCE_S

_LAST_WAIT_S = 8.0


def main(folder: str) -> None:
    """Serve until standard input, a socket, reaches its end; then remove `folder`, where the spills are."""
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    become_subreaper()
    wakeup = watch_children()
    supervisors: set[int] = set()
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(wakeup, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poller.poll()}
        if wakeup in ready:
            drain(wakeup)
            _tend(supervisors)
        if control.fileno() in ready:
            _, fds, _, _ = socket.recv_fds(control, 1, 1)
            if not fds:
                break
            supervisors.add(_fork_supervisor(fds[0], (control.fileno(), wakeup)))
    for pid in supervisors:  # a command may have stopped its supervisor, which has a tree to end
        os.kill(pid, signal.SIGCONT)
    deadline = time.monotonic() + _LAST_WAIT_S
    while supervisors and time.monotonic() < deadline:
        select.select([wakeup], [], [], 0.05)
        drain(wakeup)
        _tend(supervisors)
    _remove(folder)
    os._exit(0)


def _tend(supervisors: set[int]) -> None:
    """Forget supervisors that ended; kill what they left behind, if they did not end by themselves."""
    failed = False
    for pid, status in reap().items():
        if pid in supervisors:
            supervisors.discard(pid)
            failed = failed or status != 0
    deadline = time.monotonic() + KILL_PATIENCE_S
    while failed and Brood(supervisors).alive() and time.monotonic() < deadline:
        Brood(supervisors).kill()
        time.sleep(0.002)
        for pid in reap():
            supervisors.discard(pid)


def _fork_supervisor(fd: int, inherited: tuple[int, ...]) -> int:
    pid = os.fork()
    if pid:
        os.close(fd)
        return pid
    code = 1
    try:
        for other in inherited:
            os.close(other)
        supervise(socket.socket(fileno=fd))
        code = 0
    finally:
        os._exit(code)


def _remove(folder: str) -> None:
    try:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
    except OSError:
        pass
