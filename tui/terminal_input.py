"""What the terminal sends becomes events, whatever it is: bytes that are no UTF-8 do not end the program, what was typed
before the terminal was in raw mode counts as typed, and of many sizes in a row the last one counts.

Textual's own reader ends the application with a traceback on the first byte that it cannot decode.
"""

import array
import asyncio
import codecs
import contextlib
import fcntl
import os
import re
import selectors
import signal
import termios
from collections.abc import Iterator
from typing import Any, TextIO, cast

from textual import events
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size

from tui.composing.paste_input import Keys, Pasted, PasteSplitter
from tui.terminal_background import QUERY, AnswerFilter
from tui.theming import BackgroundKnown

_READ_BYTES = 4_096
_LARGE_READ_BYTES = 1_024
"""After a read of this size more is to be expected at once."""
_ALT_ENTER = "\x1b\r"
"""As terminals without a keyboard protocol send it; the parser would make Enter of it."""
_PASTE_PATIENCE_TICKS = 50
"""After this many ticks without input a paste whose end never came counts as ended."""
_LONGEST_SEQUENCE = 64
_TICK_S = 0.1
"""How often the parser is asked whether a lone Escape has waited long enough."""


class TerminalDriver(LinuxDriver):
    """Textual's driver with a reader of its own."""

    _answers: AnswerFilter | None = None
    _coming_back = False

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        if self._file is not None:
            self._file = cast(Any, LastingFile(self._file))

    def _sigcont_application(self, *_: object) -> None:
        """Go on after a stop. One without Ctrl+Z has left everything as it was, threads too, so it is made up for; and when
        a terminal goes away, the kernel says the same."""
        if self._coming_back or not _is_there(self.fileno):
            return
        self._coming_back = True
        try:
            if self._auto_restart and not self._must_signal_resume:
                self.suspend_application_mode()
            super()._sigcont_application()
        finally:
            self._coming_back = False

    def start_application_mode(self) -> None:
        asks = bool(getattr(self._app, "asks_background", False))
        self._answers = AnswerFilter(lambda dark: self.process_message(BackgroundKnown(dark))) if asks else None
        super().start_application_mode()  # type: ignore[no-untyped-call] # Textual does not annotate it
        loop = asyncio.get_running_loop()

        def resized(*_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._take_size)

        signal.signal(signal.SIGWINCH, resized)
        if asks:
            self.write(QUERY)
            self.flush()

    def _take_size(self) -> None:
        """Tell the application the size as it is now. Never in the signal handler: a second signal can interrupt it, and
        the size that the first has read already would then be told last."""
        if not self._in_band_window_resize:
            size = Size(*self._get_terminal_size())
            self._app.post_message(events.Resize(size, size))

    def run_input_thread(self) -> None:
        """Read and dispatch until the application ends."""
        early_bytes = _waiting_bytes(self.fileno)
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        splitter, quiet_ticks = PasteSplitter(), 0
        answers = self._answers
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(_patience_s(parser)):
                    data = self._read(early_bytes or _READ_BYTES)
                    if early_bytes:
                        # The terminal was still making line feeds of the Enter key, and nobody means Ctrl+J this early.
                        early_bytes = max(0, early_bytes - len(data))
                        data = data.replace(b"\n", b"\r")
                    if not data:
                        self.exit_event.wait(_TICK_S)  # the terminal is gone; what watches it ends the program
                    quiet_ticks = 0
                    text = decode(data) if answers is None else answers.feed(decode(data))
                    parser = self._take(parser, splitter.feed(text, more=len(data) >= _LARGE_READ_BYTES))
                elif answers is not None and answers.holds:
                    parser = self._take(parser, splitter.feed(answers.give_up(), more=False))
                elif splitter.waits:
                    quiet_ticks += 1
                    if quiet_ticks > (_PASTE_PATIENCE_TICKS if splitter.in_paste else 0):
                        parser = self._take(parser, splitter.give_up())
                parser = self._dispatch(parser)

    def _read(self, most_bytes: int) -> bytes:
        with contextlib.suppress(OSError):
            return os.read(self.fileno, most_bytes)
        return b""

    def _take(self, parser: XTermParser, parts: Iterator[Keys | Pasted]) -> XTermParser:
        for part in parts:
            if isinstance(part, Pasted):
                self.process_message(events.Paste(part.text))
                continue
            before, *behind = part.text.split(_ALT_ENTER)
            parser = self._dispatch_pieces(parser, before)
            for text in behind:
                self.process_message(events.Key("alt+enter", None))
                parser = self._dispatch_pieces(parser, text)
        return parser

    def _dispatch_pieces(self, parser: XTermParser, text: str) -> XTermParser:
        for piece in _pieces(text):
            parser = self._dispatch(parser, piece)
        return parser

    def _dispatch(self, parser: XTermParser, text: str = "") -> XTermParser:
        """Hand on the events of the text, or of the time that has passed; the parser to go on with."""
        try:
            for event in parser.feed(text) if text else parser.tick():
                self.process_message(event)
        except Exception:  # a sequence that broke it: begin anew behind it
            fresh = XTermParser(self._debug)
            fresh.mouse_pixels = parser.mouse_pixels
            fresh.terminal_size, fresh.terminal_pixel_size = parser.terminal_size, parser.terminal_pixel_size
            return fresh
        return parser


def _patience_s(parser: XTermParser) -> float:
    """How long to wait for input: no longer than until a lone Escape counts as one, which whoever interrupts waits for."""
    due = parser._timeout_time
    return _TICK_S if due is None else min(_TICK_S, max(0.0, due - get_time()) + 0.001)


class LastingFile:
    """What is written to a terminal that went away is lost; an error would end Textual's writer, for which all would wait."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()


def _is_there(descriptor: int) -> bool:
    """Whether there is a terminal on the other side."""
    with contextlib.suppress(termios.error):
        termios.tcgetattr(descriptor)
        return True
    return False


def _pieces(text: str) -> Iterator[str]:
    """The text so cut that a sequence which breaks the parser takes nothing else along."""
    for part in re.split("(?=\x1b)", text):
        if part.startswith("\x1b"):
            yield from part[:_LONGEST_SEQUENCE]
            part = part[_LONGEST_SEQUENCE:]
        if part:
            yield part


def _waiting_bytes(descriptor: int) -> int:
    """How much can be read without waiting; 0 where that cannot be told."""
    count = array.array("i", [0])
    with contextlib.suppress(OSError):
        fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]
