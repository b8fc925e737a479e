"""One command from start to end: runs in a process of its own, forked by the spawner, and answers to claw directly.

It reads the output, keeps the clock and ends the whole tree: on a time-out or a cancellation with TERM, 2 s, KILL; what the
shell leaves behind with 250 ms to finish, TERM, 250 ms, KILL; all at once when claw's end of the connection closes. Of a job
the output's file is there from the start and stays, also when claw is gone.
"""

import json
import os
import select
import socket
import time

from agent.spawner import wire
from agent.spawner.limits import expendable, limit_commands
from agent.spawner.output import JOB_FILE_BYTES, SPILL_BYTES, Capture, LiveSample, Unseen
from agent.spawner.starting import failed, start
from agent.spawner.tree import Brood, Group, become_subreaper, drain, has_children, reap, watch_children

TYPE_CHECKING = False  # as in typing, whose import would be a tenth of this process's start-up time
if TYPE_CHECKING:
    from typing import Any

_CHUNK_BYTES = 64 * 1024
_CHUNKS_A_ROUND = 16
_KILL_INTERVAL_S = 0.05
_FIRST_ROUND_S = 0.01
_LAST_ROUND_S = 0.16
"""While the grace lasts, what was born since gets its TERM too: at intervals that double from the first to the last."""
_AFTER_AN_END_S = 0.002
"""How soon to look again when a process has ended, which may have left others."""
_NEVER = float("inf")


def supervise(channel: socket.socket) -> None:
    """Read the request, run it, report. Never raises for a command that cannot be started."""
    contained = become_subreaper()
    request = wire.read_request(channel)
    if request is None:
        return
    # From here on claw must not give the request to another spawner: it may run.
    channel.sendall(wire.frame(wire.TAKEN, json.dumps(os.getpid()).encode()))
    wakeup = watch_children()
    try:
        limit_commands()
        started_at = time.monotonic()
        with expendable():
            process, output = start(request, channel)
    except (OSError, ValueError) as error:
        channel.sendall(failed(error))
        return
    run = _Run(channel, wakeup, output, process.pid, contained, started_at, request)
    process.returncode = 0  # it is reaped here, not by its object
    run.loop()
    run.report()


class _Run:
    def __init__(
        self,
        channel: socket.socket,
        wakeup: int,
        output: int,
        pid: int,
        contained: bool,
        started_at: float,
        request: "dict[str, Any]",
    ) -> None:
        self.channel = channel
        self.wakeup = wakeup
        self.output: int | None = output
        self.pid = pid
        self.started_at = started_at
        self.tree: Brood | Group = Brood() if contained else Group(pid)
        self.contained = contained
        self.is_job = request["is_job"]
        file_bytes = JOB_FILE_BYTES if self.is_job else SPILL_BYTES
        self.capture = Capture(request["spill_path"], file_bytes, at_once=self.is_job)
        self.live = LiveSample()
        self.unseen = Unseen() if self.is_job else None
        self.sent_at = 0.0
        self.outgoing = bytearray(wire.frame(wire.STARTED, b""))
        self.timeout_at = _NEVER if request["timeout_s"] is None else started_at + request["timeout_s"]
        self.tell_at: float | None = None
        """When to look for processes that were not told to end, and `tell_interval_s` what lies between two such looks."""
        self.tell_interval_s = _FIRST_ROUND_S
        self.grace_s = 0.0
        self.kill_at: float | None = None
        self.give_up_at: float | None = None
        self.status: str | None = None
        """Set when the command is ended before its time: "timeout" or "cancelled"."""
        self.shell_status: int | None = None
        self.shell_ended_at = 0.0
        self.left_running = False
        self.killed = False
        self.survivors = 0
        self.poller = select.poll()
        self.poller.register(wakeup, select.POLLIN)
        self.poller.register(output, select.POLLIN)
        channel.setblocking(False)

    def loop(self) -> None:
        done = False
        while not done:
            # On a closed connection poll reports HUP whatever is asked for.
            self.poller.register(self.channel, select.POLLIN | (select.POLLOUT if self.outgoing else 0))
            events = dict(self.poller.poll(self._wait_ms()))
            if self.output in events:
                self._read_output()
            if self.channel.fileno() in events:
                self._serve_channel(events[self.channel.fileno()])
            if self.wakeup in events:
                drain(self.wakeup)
            self._note_ended()
            self._send_sample()
            done = self._advance(time.monotonic())

    def _wait_ms(self) -> int:
        """Until the next thing that the clock decides."""
        now = time.monotonic()
        marks = []
        if self.kill_at is not None:
            marks.append(self.kill_at)
        if self.tell_at is not None:
            marks.append(self.tell_at)
        if self.shell_status is None and self.status is None and self.timeout_at != _NEVER:
            marks.append(self.timeout_at)
        if self.shell_status is not None:
            marks.append(now + _KILL_INTERVAL_S)
            if now < (grace_ends := self.shell_ended_at + wire.SHELL_GRACE_S):
                marks.append(grace_ends)
        if self.live and not self.outgoing:
            marks.append(self.sent_at + wire.SAMPLE_INTERVAL_S)
        return max(1, int((min(marks) - now) * 1000) + 1) if marks else -1

    # ------------------------------------------------------------------ what comes in

    def _read_output(self) -> None:
        for _ in range(_CHUNKS_A_ROUND):
            if self.output is None:
                return
            try:
                data = os.read(self.output, _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._close_output()
                return
            self.capture.feed(data)
            self.live.feed(data)
            if self.unseen is not None:
                self.unseen.feed(data)

    def _close_output(self) -> None:
        if self.output is not None:
            self.poller.unregister(self.output)
            os.close(self.output)
            self.output = None

    def _serve_channel(self, event: int) -> None:
        if event & select.POLLOUT and self.outgoing:
            try:
                sent = self.channel.send(self.outgoing)
                del self.outgoing[:sent]
            except BlockingIOError:
                pass
            except OSError:
                self._abandon()
        if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
            try:
                asked = self.channel.recv(64)
            except BlockingIOError:
                return
            except OSError:
                asked = b""
            if not asked:
                self._abandon()
            if wire.LOOK in asked:
                self.outgoing += self._looked()
            if wire.CANCEL in asked:
                self._stop("cancelled")

    def _abandon(self) -> None:
        """Claw is gone, or wants to hear no more: end everything at once and leave no trace."""
        deadline = time.monotonic() + wire.KILL_PATIENCE_S
        while True:
            self.tree.kill()
            reap()
            if not self._alive() or time.monotonic() > deadline:
                break
            time.sleep(0.002)
        if self.is_job:
            self._read_output()
            self.capture.finish()
        else:
            self.capture.discard()
        os._exit(0)

    def _note_ended(self) -> None:
        ended = reap()
        now = time.monotonic()
        if self.pid in ended:
            self.shell_status = ended[self.pid]
            self.shell_ended_at = now
        if ended and self.tell_at is not None:
            self.tell_at = min(self.tell_at, now + _AFTER_AN_END_S)
        elif ended and self.kill_at is not None:
            self.kill_at = min(self.kill_at, now + _AFTER_AN_END_S)

    # ------------------------------------------------------------------ what the clock decides

    def _advance(self, now: float) -> bool:
        """Move on; True when all is over."""
        if self.shell_status is None:
            if now >= self.timeout_at:
                self._stop("timeout")
        elif not self._alive():
            if self.output is None or now >= self.shell_ended_at + wire.SHELL_GRACE_S:
                self._read_output()
                return True
        elif self.tell_at is None and self.kill_at is None and now >= self.shell_ended_at + wire.SHELL_GRACE_S:
            self.left_running = True
            self._tell_to_end(wire.SHELL_GRACE_S)
        if self.tell_at is not None and now >= self.tell_at:
            self.tree.terminate()
            if self.kill_at is None:  # the grace begins when all were told, which may take a while
                self.kill_at = time.monotonic() + self.grace_s
                self.give_up_at = self.kill_at + wire.KILL_PATIENCE_S
            self.tell_at = now + self.tell_interval_s
            self.tell_interval_s = min(2 * self.tell_interval_s, _LAST_ROUND_S)
        return self._kill_when_due(now)

    def _stop(self, status: str) -> None:
        if self.status is not None or self.shell_status is not None:
            return
        self.status = status
        self._tell_to_end(wire.TERM_GRACE_S)

    def _tell_to_end(self, grace_s: float) -> None:
        self.tell_at = time.monotonic()
        self.grace_s = grace_s

    def _kill_when_due(self, now: float) -> bool:
        if self.kill_at is None or now < self.kill_at:
            return False
        self.tell_at = None
        self.killed = True
        self.tree.kill()
        self.kill_at = now + _KILL_INTERVAL_S
        if self.give_up_at is not None and now > self.give_up_at:
            self.survivors = len(self.tree.pids()) if isinstance(self.tree, Brood) else 1
            return True
        return False

    def _alive(self) -> bool:
        return has_children() if self.contained else self.tree.alive()

    # ------------------------------------------------------------------ what goes out

    def _send_sample(self) -> None:
        now = time.monotonic()
        if self.live and not self.outgoing and now >= self.sent_at + wire.SAMPLE_INTERVAL_S:
            self.outgoing += self._sample()
            self.sent_at = now

    def _sample(self) -> bytes:
        skipped, data = self.live.take()
        return wire.frame(wire.LIVE, wire.LIVE_HEADER.pack(skipped) + data)

    def _looked(self) -> bytes:
        if self.unseen is None:
            return b""
        missing, head, tail = self.unseen.take()
        return wire.frame(wire.LOOKED, wire.LOOKED_HEADER.pack(missing, len(head)) + head + tail)

    def report(self) -> None:
        self._close_output()
        self.capture.finish()
        status = self.shell_status
        ended_by = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None
        natural = "signal" if ended_by is not None else "exited"
        facts = {
            "status": self.status or natural,
            "exit_code": os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None,
            "signal": ended_by,
            "total_bytes": self.capture.total_bytes,
            "spill_file": self.capture.spill_path,
            "spill_missing_bytes": self.capture.missing_bytes,
            "duration_ms": int(((self.shell_ended_at or time.monotonic()) - self.started_at) * 1000),
            "left_running": self.left_running,
            "killed": self.killed,
            "survivors": self.survivors,
        }
        if self.live:
            self.outgoing += self._sample()
        self.outgoing += self._looked()
        self.outgoing += wire.frame(wire.HEAD, self.capture.head)
        self.outgoing += wire.frame(wire.TAIL, self.capture.tail)
        self.outgoing += wire.frame(wire.ENDED, json.dumps(facts).encode())
        self.channel.setblocking(True)
        try:
            self.channel.sendall(self.outgoing)
        except OSError:
            if self.capture.spill_path is not None and not self.is_job:
                os.unlink(self.capture.spill_path)
