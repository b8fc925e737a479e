"""The spawner's loop: forks one supervisor for each connection that claw hands over, and adopts what a dead one left.

It ends when claw's end of the control connection closes, after its supervisors have ended their trees. A supervisor that was
killed leaves its processes to the spawner, which kills them.
"""

import os
import select
import signal
import socket
import time

from agent.spawner.starting import refuse
from agent.spawner.supervisor import supervise
from agent.spawner.tree import Brood, become_subreaper, drain, reap, watch_children
from agent.spawner.wire import KILL_PATIENCE_S

_ORDER_S = 0.6
"""How long supervisors have, when claw is gone, before their trees are ended from here. They may still put files in order."""
_ROUND_S = 0.02


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
            try:
                supervisors.add(_fork_supervisor(fds[0], (control.fileno(), wakeup)))
            except OSError as error:  # too many processes, or no memory
                refuse(socket.socket(fileno=fds[0]), error)
    _end_all(supervisors, wakeup)
    _remove(folder)
    os._exit(0)


def _end_all(supervisors: set[int], wakeup: int) -> None:
    """Let the supervisors end their trees, and end what they do not."""
    begun = time.monotonic()
    others, everyone = Brood(supervisors), Brood()
    while supervisors or others.alive():
        waited_s = time.monotonic() - begun
        if waited_s > _ORDER_S + 2 * KILL_PATIENCE_S:
            return
        for pid in supervisors:
            # A command may have stopped its supervisor, and may do so again.
            os.kill(pid, signal.SIGCONT if waited_s < _ORDER_S + KILL_PATIENCE_S else signal.SIGKILL)
        others.kill()
        if waited_s > _ORDER_S:
            everyone.kill_groups()
        select.select([wakeup], [], [], _ROUND_S)
        drain(wakeup)
        supervisors.difference_update(reap())


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
        supervisors.difference_update(reap())


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
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                _remove(entry.path)
            else:
                os.unlink(entry.path)
        os.rmdir(folder)
    except OSError:
        pass
