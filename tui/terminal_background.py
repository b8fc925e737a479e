"""Whether the terminal is dark or light: what asks it, what its answer means, and how that answer is kept out of the keys.

Terminals answer within milliseconds or not at all; nobody waits for it. Only while an answer is due is anything held back,
and never longer than until the next look at the input.
"""

import re
import time
from collections.abc import Callable, Mapping

QUERY = "\x1b]11;?\x1b\\"
PATIENCE_S = 2.0
"""After this time an answer is no longer expected."""

_ANSWER = re.compile("\x1b\\]11;([^\x07\x1b]{0,64})(?:\x07|\x1b\\\\)")
_BEGUN = re.compile("\x1b(?:\\](?:1(?:1(?:;[^\x07\x1b]{0,64}\x1b?)?)?)?)?\\Z")
_RGB = re.compile(r"rgba?:([0-9a-f]{1,4})/([0-9a-f]{1,4})/([0-9a-f]{1,4})(?:/[0-9a-f]{1,4})?", re.IGNORECASE)
_HEX = re.compile(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})", re.IGNORECASE)
_LIGHT_NUMBERS = {"7", "9", "10", "11", "12", "13", "14", "15"}


def is_dark(color: str) -> bool | None:
    """Of a colour as terminals write it, `rgb:ffff/ffff/ffff` or `#ffffff`; None for anything else."""
    match = _RGB.fullmatch(color.strip()) or _HEX.fullmatch(color.strip())
    if match is None:
        return None
    red, green, blue = (int(part, 16) / (int("f" * len(part), 16)) for part in match.groups()[:3])
    return 0.299 * red + 0.587 * green + 0.114 * blue < 0.5


def dark_by_environment(env: Mapping[str, str]) -> bool | None:
    """By COLORFGBG, `FOREGROUND;BACKGROUND` as numbers of the sixteen colours; None where it says nothing."""
    number = env.get("COLORFGBG", "").rpartition(";")[2]
    return None if not number.isdecimal() else number not in _LIGHT_NUMBERS


class AnswerFilter:
    """Feed it decoded input; it gives the input back without the terminal's answer."""

    def __init__(self, on_answer: Callable[[bool], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`on_answer` gets whether the terminal is dark, at most once; it is called in the thread that feeds."""
        self._on_answer = on_answer
        self._clock = clock
        self._until = clock() + PATIENCE_S
        self._held = ""

    @property
    def holds(self) -> bool:
        """Whether there is what may be the beginning of an answer."""
        return bool(self._held)

    def feed(self, text: str) -> str:
        text, self._held = self._held + text, ""
        if self._clock() > self._until:
            return text
        if (answer := _ANSWER.search(text)) is not None:
            self._until = float("-inf")
            if (dark := is_dark(answer[1])) is not None:
                self._on_answer(dark)
            return text[: answer.start()] + text[answer.end() :]
        if (begun := _BEGUN.search(text)) is not None:
            self._held = text[begun.start() :]
            return text[: begun.start()]
        return text

    def give_up(self) -> str:
        """What was held back, since nothing more came: these were keys."""
        held, self._held = self._held, ""
        return held
