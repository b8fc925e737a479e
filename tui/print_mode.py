"""One task without a screen: reads the same events as the TUI and writes text or one JSON object.

Standard output gets the answer and nothing else; everything for the person at the terminal goes to standard error.
"""

import asyncio
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from agent.events import (
    CompactionFinished,
    Event,
    MessageCompleted,
    Notice,
    RetryScheduled,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from agent.session import Session
from agent.tools.details import RefusedDetails
from providers.types import TextBlock, Usage

OutputFormat = Literal["text", "json"]

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_REFUSED, EXIT_LIMIT, EXIT_CONTEXT = 0, 1, 2, 3, 4, 5
MAX_STDIN_BYTES = 64 * 1024 * 1024


class Collector:
    """Gathers what the result needs from the events of one run; complaints go to standard error as they come."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._titles: dict[str, str] = {}
        self.text = ""
        self.steps = 0
        self.usage = Usage()
        self.cost_usd: float | None = None
        self.stop_reason = ""
        self.refusals: list[dict[str, str]] = []

    def emit(self, event: Event) -> None:
        match event:
            case StepStarted():
                self.steps += 1
            case MessageCompleted():
                self._take_message(event)
            case ToolStarted():
                self._titles[event.call_id] = event.title
            case ToolFinished(details=RefusedDetails(reason=reason)):
                title = self._titles.get(event.call_id, "")
                self.refusals.append({"tool": event.tool, "title": title, "reason": reason})
            case RetryScheduled():
                attempt = f"try {event.attempt} of {event.max_attempts}"
                self._complain(f"claw: {event.reason}; {attempt} in {event.delay_s:.0f} s")
            case CompactionFinished(key=key, message=message):
                self._spent(event.usage, event.cost_usd)
                if key is None and message:
                    self._complain(f"claw: not compacted: {message}")
            case Notice(level=level) if level != "info":
                self._complain(f"claw: {event.text}" + (f"\n      {event.remedy}" if event.remedy else ""))

    def _take_message(self, event: MessageCompleted) -> None:
        text = "".join(block.text for block in event.blocks if isinstance(block, TextBlock))
        if text.strip():
            self.text = text
        self._spent(event.usage, event.cost_usd)
        self.stop_reason = event.stop_reason

    def _spent(self, usage: Usage, cost_usd: float | None) -> None:
        self.usage += usage
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd


async def run(session: Session, collector: Collector, prompt: str, output_format: OutputFormat) -> int:
    """Run the prompt to its end, write the result, and return the exit code."""
    started = time.monotonic()
    try:
        ended, signal_number = await _run_interruptible(session, prompt)
    finally:
        await session.close()
    code = exit_code(ended, bool(collector.refusals)) if signal_number is None else 128 + signal_number
    if ended.reason != "done":
        print("claw: " + (ended.error or "Stopped before the end.").replace("\n", "\n      "), file=sys.stderr)
    elif code == EXIT_REFUSED:
        refused = ", ".join(sorted({refusal["tool"] for refusal in collector.refusals}))
        remedy = "Allow them with --allowed-tools or another --mode."
        print(f"claw: Done, but permission was refused for: {refused}.\n      {remedy}", file=sys.stderr)
    if output_format == "json":
        _write(msgspec.json.encode(_summary(session.id, collector, ended, started)).decode() + "\n")
    elif collector.text:
        _write(collector.text if collector.text.endswith("\n") else collector.text + "\n")
    return code


def exit_code(ended: TurnEnded, refused: bool) -> int:
    """The documented code for the end of a turn."""
    match ended.reason:
        case "done":
            return EXIT_REFUSED if refused else EXIT_DONE
        case "max_turns" | "max_cost":
            return EXIT_LIMIT
        case "context_full":
            return EXIT_CONTEXT
        case "interrupted":
            return 128 + signal.SIGINT
        case _:
            return EXIT_FAILED


def with_piped_input(prompt: str) -> str:
    """The prompt, and behind it what was piped into standard input, if anything was.

    Raises:
        ValueError: more than 64 MiB, or it cannot be read; the text says what and what to do.
    """
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return prompt
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
        return prompt
    try:
        data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    except OSError as error:
        raise ValueError(
            f"Standard input cannot be read: {error.strerror}.\nUse `</dev/null` if none is meant."
        ) from None
    if len(data) > MAX_STDIN_BYTES:
        raise ValueError("Standard input holds more than 64 MiB.\nPut it in a file and name the file in the prompt.")
    text = data.decode("utf-8", "replace").strip("\n")
    return "\n\n".join(part for part in (prompt, text) if part.strip())


async def _run_interruptible(session: Session, prompt: str) -> tuple[TurnEnded, int | None]:
    """Run one turn; the first SIGINT, SIGTERM or SIGHUP interrupts it and is reported."""
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        session.interrupt()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        ended = await session.prompt(prompt)
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
    return ended, received[0] if received else None


def _summary(session_id: str, collector: Collector, ended: TurnEnded, started: float) -> dict[str, Any]:
    usage = collector.usage
    return {
        "result": collector.text,
        "session_id": session_id,
        "turns": collector.steps,
        "usage": {
            "input": usage.input_tokens,
            "cache_read": usage.cache_read_tokens,
            "cache_write": usage.cache_write_tokens,
            "output": usage.output_tokens,
        },
        "cost_usd": collector.cost_usd,
        "duration_ms": int((time.monotonic() - started) * 1000),
        "stop_reason": collector.stop_reason if ended.reason == "done" else ended.reason,
        "refusals": collector.refusals,
        "is_error": ended.reason != "done",
    }


def _write(text: str) -> None:
    """
    Raises:
        BrokenPipeError: nobody reads.
    """
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
