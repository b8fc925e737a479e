"""Tasks without a screen: reads the same events as the TUI and writes text, one JSON object, or the events themselves.

Standard output gets what was asked for and nothing else; everything for the person at the terminal goes to standard error.
Decision: a file or pipe gets the answer's text to the byte, since a script may depend on it; a terminal gets it as the screen
shows it. JSON is the same everywhere, with escapes for what a terminal might act on.
"""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from agent.events import Event, TurnEnded, TurnStarted
from agent.session import Session
from tui.headless.collector import Collector
from tui.headless.output_schema import AnswerSchema
from tui.headless.stream_json import EventStream, Result, TokenUsage, encoded
from tui.sanitize import clean, spelled_json
from tui.session_seam import lost_text

OutputFormat = Literal["text", "json", "stream-json"]

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_REFUSED, EXIT_LIMIT, EXIT_CONTEXT = 0, 1, 2, 3, 4, 5
_PATIENCE_S = 0.5
"""How long a reader that does not read may hold up an end by a signal."""
_AGAIN_S = 1.0


class Messages(Protocol):
    """Where the user messages of a run come from."""

    async def next(self) -> str | None:
        """The next one; None: there will be none."""
        ...

    def stop(self) -> None:
        """Give no further one."""
        ...


class Ending(Struct, frozen=True):
    """How the answer to one message ended."""

    code: int
    reason: str
    """As of `TurnEnded`; also "bad_answer", where the answer does not fit the schema, and "signal"."""
    error: str = ""


class Stopper:
    """Interrupts the turn that runs, or else the next one, as soon as it has begun."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.asked = False
        self._in_turn = False

    def ask(self) -> None:
        self.asked = True
        if self._in_turn and self.session is not None:
            self.session.interrupt()

    def emit(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._in_turn = True
                if self.asked and self.session is not None:
                    asyncio.get_running_loop().call_soon(self.session.interrupt)
            case TurnEnded():
                self._in_turn = False


class PrintRun:
    """One run of print mode: messages in, an exit code out."""

    def __init__(
        self,
        session: Session,
        collector: Collector,
        stopper: Stopper,
        messages: Messages,
        schema: AnswerSchema | None = None,
        stream: EventStream | None = None,
        mentions: Sequence[str] = (),
    ) -> None:
        """`mentions`: files that the prompt of the command line names and that go along with the first message."""
        self._mentions = mentions
        self._session = session
        self._collector = collector
        self._stopper = stopper
        self._messages = messages
        self._schema = schema
        self._stream = stream
        self._signal: int | None = None
        self._failure: Ending | None = None

    async def run(self, output_format: OutputFormat, bad_input: Callable[[], bool] = lambda: False) -> int:
        """Answer every message, write the result, and give the exit code: of the first message that was not answered as it
        should be, else 2 after `bad_input`, 3 after a refusal, or 0.

        Raises:
            OSError: the result cannot be written; the session is closed all the same.
        """
        started = time.monotonic()
        try:
            with self._signals():
                last = await self._answer_all()
        finally:
            await self._session.close()
            if self._session.unwritten:
                complain(lost_text(self._session.id, self._session.unwritten))
        ending = self._failure or last
        if self._signal is not None:
            ending = Ending(
                128 + self._signal, "interrupted" if ending is None else ending.reason, "Stopped by a signal."
            )
        elif self._failure is None and bad_input():
            ending = Ending(EXIT_USAGE, "bad_input", "Some lines of standard input were not used.")
        ending = ending or Ending(EXIT_DONE, "done")
        code = EXIT_REFUSED if ending.code == EXIT_DONE and self._collector.refusals else ending.code
        if ending.error:
            complain(ending.error)
        elif code == EXIT_REFUSED:
            refused = ", ".join(sorted({refusal.tool for refusal in self._collector.refusals}))
            remedy = "Allow them with --allowed-tools or another --mode."
            complain(f"Done, but permission was refused for: {refused}.\n{remedy}")
        await self._write(self._result(ending, started), output_format)
        return code

    async def _answer_all(self) -> Ending | None:
        """The ending of the last answer; None: there was no message."""
        last = None
        while (message := await self._messages.next()) is not None:
            last = await self._answer(message)
            self._stopper.asked = False
            if last.code != EXIT_DONE:
                self._failure = self._failure or last
            if last.reason in ("max_cost", "context_full"):  # no later message could be answered
                break
        return last

    async def _answer(self, message: str) -> Ending:
        schema = self._schema
        ended = await self._prompt(message if schema is None else schema.told(message))
        if schema is None or ended.reason != "done":
            return self._ending(ended)
        fit = schema.fit(self._collector.text)
        if fit.errors and not self._stopper.asked:
            ended = await self._prompt(schema.again(fit.errors))
            if ended.reason != "done":
                return self._ending(ended)
            fit = schema.fit(self._collector.text)
        self._collector.text = fit.text
        if fit.errors:
            faults = "\n".join(fit.errors)
            return Ending(EXIT_FAILED, "bad_answer", f"The answer does not fit the schema:\n{faults}")
        return Ending(EXIT_DONE, "done")

    async def _prompt(self, text: str) -> TurnEnded:
        self._collector.text = ""
        mentions, self._mentions = self._mentions, ()
        if not mentions:
            return await self._session.prompt(text)
        message = await self._session.prepare(text, mentions)
        for problem in message.problems:
            complain(problem)
        return await self._session.prompt(message)

    def _ending(self, ended: TurnEnded) -> Ending:
        if ended.reason == "interrupted" and self._stopper.asked and self._signal is None:
            return Ending(EXIT_DONE, "interrupted")  # as the script wished
        error = "" if ended.reason == "done" else ended.error or "Stopped before the end."
        return Ending(exit_code(ended, refused=False), ended.reason, error)

    def end(self) -> None:
        """Stop at once and take no further message."""
        self._messages.stop()
        self._stopper.ask()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """The first signal ends the run and is remembered. A command that does not end in a second is then killed."""
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            self._signal = self._signal or number
            self.end()
            loop.call_later(_AGAIN_S, self.end)

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
        for number in numbers:
            loop.add_signal_handler(number, stop, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _result(self, ending: Ending, started: float) -> Result:
        collector, usage = self._collector, self._collector.usage
        return Result(
            collector.text,
            self._session.id,
            collector.steps,
            TokenUsage(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens),
            collector.cost_usd,
            int((time.monotonic() - started) * 1000),
            collector.stop_reason if ending.reason == "done" else ending.reason,
            tuple(collector.refusals),
            ending.code != EXIT_DONE,
        )

    async def _write(self, result: Result, output_format: OutputFormat) -> None:
        if self._stream is not None:
            self._stream.emit(result)
            await self._stream.finish(None if self._signal is None else _PATIENCE_S)
        elif output_format == "json":
            fields = {name: value for name, value in msgspec.to_builtins(result).items() if name != "type"}
            _write(spelled_json(encoded(fields).decode()) + "\n")
        elif result.result:
            _write(result.result if result.result.endswith("\n") else result.result + "\n")


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


def complain(text: str) -> None:
    """Tell the person at the terminal: what, and behind it what to do. The text may be foreign."""
    print("claw: " + clean(text).replace("\n", "\n      "), file=sys.stderr)


def _write(text: str) -> None:
    """
    Raises:
        BrokenPipeError: nobody reads.
    """
    if sys.stdout.isatty():
        text = clean(text)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
