"""Run by tests inside a pseudo-terminal: the application with a fake session. `pty_app.py STATE MARKER [ignore-hup]`.

STATE: idle, streaming, dialog, or stuck (the event loop hangs for good, which is ended after half a second; the others have
half a minute for an orderly end). MARKER: a file that says how far it came.
"""

import asyncio
import fcntl
import signal
import sys
import termios
import time
from pathlib import Path

from agent.events import Emit, TextStreamed
from agent.permissions.approval import ApprovalRequest, Approver
from tests.tui.fake_session import FakeSession, Opener, launch
from tui.bridge import Target
from tui.launch.run import run_app


class MarkingOpener(Opener):
    def __init__(self, state: str, marker: Path) -> None:
        super().__init__()
        self.state = state
        self.marker = marker
        self.tasks: list[asyncio.Task[None]] = []

    async def __call__(self, target: Target, emit: Emit, approver: Approver) -> FakeSession:
        session = await super().__call__(target, emit, approver)
        session.on_close = lambda: self.marker.write_text(f"closed {session.calls}")
        self.tasks.append(asyncio.create_task(self.act(session)))
        return session

    async def act(self, session: FakeSession) -> None:
        if self.state == "streaming":
            turn = asyncio.create_task(session.prompt("go"))
            await asyncio.sleep(0.05)
            self.marker.write_text("ready")
            while not turn.done():
                session.emit(TextStreamed("words of a reply "))
                await asyncio.sleep(0.01)
            return
        if self.state == "dialog":
            question = asyncio.create_task(session.ask(ApprovalRequest("1", "bash", "ls", command="ls")))
            await asyncio.sleep(0.05)
            self.marker.write_text("ready")
            await question
            return
        await asyncio.sleep(0.05)
        self.marker.write_text("ready")
        if self.state == "stuck":
            time.sleep(60)  # noqa: ASYNC251 - the point of this state


def main() -> int:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    state, marker = sys.argv[1], Path(sys.argv[2])
    if "ignore-hup" in sys.argv:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return run_app(launch(MarkingOpener(state, marker)), hard_limit_s=0.5 if state == "stuck" else 30.0)


if __name__ == "__main__":
    sys.exit(main())
