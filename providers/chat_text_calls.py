"""Tool calls that a model writes into its text, for servers that do not take them apart: `<tool_call>{…}</tool_call>`.

Only for models that are known to do so: elsewhere such a text is a text.
"""

import json
from typing import Any

from providers.types import StreamEvent, TextDelta, ToolCallFinished, ToolCallStarted

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


class TextCalls:
    """Takes a text that comes in pieces; gives back what is text, and at the end the calls in it."""

    def __init__(self) -> None:
        self._held = ""
        self._calls: list[tuple[str, str]] = []

    def feed(self, piece: str) -> str:
        """The text that can be shown now. What may begin a call is held back."""
        self._held += piece
        shown: list[str] = []
        while True:
            begin = self._held.find(_OPEN)
            if begin < 0:
                keep = _overlap(self._held)
                shown.append(self._held[: len(self._held) - keep])
                self._held = self._held[len(self._held) - keep :]
                return "".join(shown)
            end = self._held.find(_CLOSE, begin)
            if end < 0:
                shown.append(self._held[:begin])
                self._held = self._held[begin:]
                return "".join(shown)
            inner = self._held[begin + len(_OPEN) : end]
            call = _parsed(inner)
            if call is None:
                shown.append(self._held[: end + len(_CLOSE)])
            else:
                shown.append(self._held[:begin].rstrip())
                self._calls.append(call)
            self._held = self._held[end + len(_CLOSE) :].lstrip()

    def end(self) -> list[StreamEvent]:
        """The calls in order, and before them what was held back and is no whole call: an unfinished one is text."""
        events: list[StreamEvent] = [TextDelta(self._held)] if self._held.strip() else []
        for name, arguments in self._calls:
            events += [ToolCallStarted("", name), ToolCallFinished(arguments)]
        return events


def _overlap(text: str) -> int:
    """How many of the last characters may begin the mark of a call."""
    return next((size for size in range(min(len(_OPEN) - 1, len(text)), 0, -1) if _OPEN.startswith(text[-size:])), 0)


def _parsed(text: str) -> tuple[str, str] | None:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    return value["name"], arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
