"""One command in the background, while it runs and after: what is known of it, in values and in words.

It starts and ends nothing; who holds it does.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from agent.command_channel import RunOutcome
from agent.job_file import JobFile
from agent.job_line import JobLine, Look
from agent.redaction_stream import RedactionStream
from agent.tools.details import JobState
from agent.tools.endings import describe_end
from agent.tools.truncate import newest

RECENT_CHARS = 32_000
TITLE_CHARS = 80
EndedBy = Literal["", "user", "model"]


class JobView(Struct, frozen=True):
    """A job as it is now, for whoever shows it. Texts are foreign."""

    number: int
    command: str
    state: JobState
    ending: str
    """How it ended; empty while it runs."""
    started_ms: int
    """Wall clock."""
    seconds: float
    """How long it has run, or did."""
    path: str
    """The file with its output; empty if there is none."""
    recent: str
    """The newest output, raw; of a flood a sample."""


class Job:
    def __init__(
        self,
        number: int,
        command: str,
        line: JobLine,
        started_ms: int,
        file: JobFile,
        stream: Callable[[], RedactionStream],
    ) -> None:
        """`file`: where its output can be read; `stream` makes what takes secrets out of further texts."""
        self.file = file
        self.has_news = asyncio.Event()
        """Set when it wrote something."""
        self._live, self._looked = stream(), stream()
        self.number = number
        self.command = command
        self.line = line
        self.started_ms = started_ms
        self.task: asyncio.Task[None] | None = None
        self.error: Exception | None = None
        """Why it could not be started, or what became of its supervisor."""
        self.ended_by: EndedBy = ""
        self.is_told = False
        """Whether the model knows how it ended."""
        self._began = time.monotonic()
        self._seconds = 0.0
        self._ended = False
        self._recent = ""
        self._carry = b""

    @property
    def outcome(self) -> RunOutcome | None:
        return self.line.outcome

    @property
    def state(self) -> JobState:
        if not self._ended:
            return "running"
        if self.outcome is None:
            return "lost"
        if self.ended_by:
            return "cancelled"
        return "signal" if self.outcome.status == "signal" else "exited"

    @property
    def is_running(self) -> bool:
        return not self._ended

    @property
    def title(self) -> str:
        return job_title(self.command)

    @property
    def seconds(self) -> float:
        return self._seconds if self._ended else time.monotonic() - self._began

    @property
    def path(self) -> str:
        return str(self.file.path) if self.file.path.exists() else ""

    def show(self, text: str) -> None:
        """A further piece of live output."""
        self.has_news.set()
        self._recent += self._live.feed(text)
        if len(self._recent) > 2 * RECENT_CHARS:
            self._recent = newest(self._recent, RECENT_CHARS)

    def end(self) -> None:
        """Nothing of it runs any more."""
        self._recent += self._live.finish()
        self._seconds = self.seconds
        self._ended = True

    async def look(self) -> Look:
        """What it wrote since the look before; a character that is not whole yet waits for the next one."""
        look = Look(self._carry).then(await self.line.look())
        self._carry = b""
        end = look.tail or look.head
        if self.is_running and (cut := incomplete(end)):
            self._carry = end[-cut:]
            look = (
                Look(look.head, look.missing_bytes, look.tail[:-cut])
                if look.tail
                else Look(look.head[:-cut], look.missing_bytes, b"")
            )
        await asyncio.to_thread(self.file.catch_up)
        return self._without_secrets(look)

    def _without_secrets(self, look: Look) -> Look:
        """The beginning of what may become a secret waits for the next look."""
        stream = self._looked
        head = stream.feed(look.head.decode("latin-1"))
        if look.missing_bytes:
            head += stream.finish()
        tail = stream.feed(look.tail.decode("latin-1"))
        tail += stream.settle() if self.is_running else stream.finish()
        if not look.missing_bytes:
            head, tail = head + tail, ""
        return Look(head.encode("latin-1"), look.missing_bytes, tail.encode("latin-1"))

    @property
    def ending(self) -> str:
        """How it ended, in words; empty while it runs."""
        if self.is_running:
            return ""
        if self.outcome is None:
            return f"lost: {self.error}" if self.error is not None else "lost: how it ended is unknown"
        how = describe_end(self.outcome)
        if self.ended_by:
            who = "the user" if self.ended_by == "user" else "bash_kill"
            how = f"ended by {who}"
        notes = [how]
        if self.outcome.left_running:
            notes.append("what it had left running was ended too")
        if self.outcome.survivors:
            notes.append(f"{self.outcome.survivors} of its processes could not be ended")
        return "; ".join(notes)

    @property
    def note(self) -> str:
        """One line of where it stands."""
        lasted = duration(self.seconds)
        return f"running for {lasted}" if self.is_running else f"{self.ending}, after {lasted}"

    def view(self) -> JobView:
        return JobView(
            self.number,
            self.command,
            self.state,
            self.ending,
            self.started_ms,
            self.seconds,
            self.path,
            self._recent[-RECENT_CHARS:],
        )


def job_title(command: str) -> str:
    """The first line of a command, short and printable."""
    first, _, rest = command.strip().partition("\n")
    shown = "".join(c if c.isprintable() else " " for c in first[:TITLE_CHARS])
    return shown + (" …" if rest or len(first) > TITLE_CHARS else "")


def duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole // 60 % 60} min"


def incomplete(data: bytes) -> int:
    """How many bytes at the end are the beginning of a UTF-8 character that is not all there."""
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return length if length < needed else 0
        if byte < 0x80:
            return 0
    return 0
