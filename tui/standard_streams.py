"""Standard output and standard error as the command line uses them: every text that goes there is made fit for a terminal,
whoever writes it (`print`, the parser of arguments, warnings, tracebacks of threads), and no character ends the program.

What has to arrive to the byte goes through `sys.stdout.buffer`: `tui/print_mode.py` decides when. The screen writes to
`sys.__stderr__`, which is left as it is.
"""

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import TextIO

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_HARMLESS = re.compile("[\n\t -~]*")


class CleanStream(io.TextIOWrapper):
    """A text stream over another one's buffer. What its encoding lacks is written as an escape."""

    def write(self, text: str, /) -> int:
        if not _HARMLESS.fullmatch(text):
            from tui.sanitize import clean  # most runs never need it

            # Each text for itself: an escape sequence in two pieces is as visible as one in one piece.
            super().write(clean(text))
        else:
            super().write(text)
        return len(text)


@contextlib.contextmanager
def clean_streams() -> Iterator[None]:
    """While the block runs, `sys.stdout` and `sys.stderr` are clean. Streams that were closed get a quiet place first, so that
    no file that is opened later takes their number."""
    for name, mode in _STREAMS:
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is this stream's own
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    before = sys.stdout, sys.stderr
    made = [_clean(stream) for stream in before]
    sys.stdout, sys.stderr = made
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in made:
            with contextlib.suppress(OSError, ValueError):
                stream.detach()


def _clean(stream: TextIO) -> CleanStream:
    stream.flush()
    errors = "backslashreplace"
    return CleanStream(stream.buffer, stream.encoding, errors, line_buffering=stream.isatty(), write_through=True)
