"""The fold from the chunks of a Chat Completions stream to claw's stream events. Pure: JSON text in, events out.

Decisions: calls are finished by a reason to stop that is not the output limit, never by the end of the stream alone; the
first call is passed on while it is written, what arrives beside it waits until it is over, so that blocks never interleave.
A report of usage may come in each chunk (the last one counts), behind the last one, or not at all.
"""

import json
from typing import Any

from providers.chat_encoding import REASONING
from providers.chat_events import STOPS, decode, failure, reasoning_of, text_of, usage_of
from providers.chat_quirks import ChatQuirks
from providers.chat_text_calls import TextCalls
from providers.deltas import merge_deltas
from providers.errors import ProviderError, StreamBrokenError
from providers.sse import SseEvent
from providers.types import (
    Completed,
    OpaqueBlock,
    OpaqueReceived,
    Ping,
    StopReason,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingFinished,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from providers.unicode import SurrogateJoiner, clean


class _Call:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []


class ChatReader:
    """Decodes one stream, until it is `finished` or there is a `failure`; see `EventDecoder`."""

    def __init__(self, family: str, quirks: ChatQuirks) -> None:
        self.finished = False
        self.failure: ProviderError | None = None
        self._family = family
        self._quirks = quirks
        self._events: list[StreamEvent] = []
        self._calls: dict[int, _Call] = {}
        self._writing: int | None = None
        self._stop: StopReason | None = None
        self._detail = ""
        self._usage = Usage()
        self._reasoning: list[str] = []
        self._thinks = False
        self._late: list[str] = []
        self._refusal: list[str] = []
        self._joiner = SurrogateJoiner()
        self._text_calls = TextCalls() if quirks.calls_as_text else None

    def feed(self, events: list[SseEvent]) -> list[StreamEvent]:
        """See `EventDecoder.feed`."""
        found: list[StreamEvent] = []
        before = self._usage
        try:
            for _, data in events:
                if self.finished:
                    break
                self._events = []
                if data.strip() == b"[DONE]":
                    self._end()
                else:
                    self._chunk(decode(data))
                found += self._events
        except ProviderError as error:
            self.failure = error
            found += self._events
        if self._usage is not before and not self.finished:
            found.append(UsageReported(self._usage))
        return merge_deltas(found) or [Ping()]

    def end(self) -> list[StreamEvent]:
        """The response is over: servers that send no `[DONE]` end a reply so, once they have said why it stopped."""
        if self.finished or self.failure is not None or self._stop is None:
            return []
        self._events = []
        self._end()
        return self._events

    # ------------------------------------------------------------------ chunks

    def _chunk(self, chunk: dict[str, Any]) -> None:
        if (error := failure(chunk)) is not None:
            raise error
        if (usage := usage_of(chunk.get("usage"))) is not None:
            self._usage = usage
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            self._delta(delta)
        if usage is None and (late := usage_of(choice.get("usage"))) is not None:
            self._usage = late
        if reason := choice.get("finish_reason"):
            self._stopped(str(reason))

    def _delta(self, delta: dict[str, Any]) -> None:
        if text := reasoning_of(delta):
            self._reasoning.append(text)
            self._thinks = True
            self._events.append(ThinkingDelta(clean(text)))
        if refused := text_of(delta.get("refusal")):
            self._refusal.append(refused)
            self._say(refused)
        if text := text_of(delta.get("content")):
            self._say(text)
        calls = delta.get("tool_calls")
        for place, call in enumerate(calls if isinstance(calls, list) else []):
            if isinstance(call, dict):
                self._call_piece(call, place)

    def _say(self, text: str) -> None:
        text = self._joiner.feed(text)
        if self._text_calls is not None:
            text = self._text_calls.feed(text)
        if not text:
            return
        self._end_thinking()
        if self._writing is None:
            self._events.append(TextDelta(text))
        else:
            self._late.append(text)

    def _end_thinking(self) -> None:
        if not self._thinks:
            return
        self._thinks = False
        self._events.append(ThinkingFinished())
        if self._quirks.reasoning_back:
            raw = {"type": REASONING, "text": clean("".join(self._reasoning))}
            self._events.append(OpaqueReceived(OpaqueBlock("chat", self._family, raw)))
        self._reasoning = []

    # ------------------------------------------------------------------ calls

    def _call_piece(self, piece: dict[str, Any], place: int) -> None:
        self._end_thinking()
        index = self._index(piece, place)
        call = self._calls.setdefault(index, _Call())
        function = piece.get("function")
        fields = function if isinstance(function, dict) else piece
        if isinstance(piece.get("id"), str):
            call.id = call.id or piece["id"]
        if isinstance(fields.get("name"), str):
            call.name = call.name or fields["name"]
        arguments = fields.get("arguments")
        text = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
        call.pieces.append(text)
        if self._writing is None and call.name:
            self._writing = index
            self._events.append(ToolCallStarted(call.id, call.name))
            text = "".join(call.pieces)
        if self._writing == index and text:
            self._events.append(ToolCallDelta(clean(text)))

    def _index(self, piece: dict[str, Any], place: int) -> int:
        """Which call a piece belongs to. Some servers number nothing, or give every call the number 0 and another id."""
        index = piece.get("index")
        if not isinstance(index, int) or isinstance(index, bool):
            index = max(self._calls, default=-1) if not piece.get("id") else -1
            if index < 0 or place:
                index = max(self._calls, default=-1) + 1
        known = self._calls.get(index)
        if known is not None and piece.get("id") and known.id and piece["id"] != known.id:
            return next((n for n, c in self._calls.items() if c.id == piece["id"]), max(self._calls) + 1)
        return index

    def _end_calls(self, finished: bool) -> None:
        """Close what is being written, and pass on what was written beside it. Only the newest call can be unfinished."""
        newest = max(self._calls, default=-1)
        order = sorted(self._calls, key=lambda index: (index != self._writing, index))
        for index in order:
            call = self._calls[index]
            arguments = clean("".join(call.pieces))
            whole = finished or (index != newest and _is_json(arguments))
            if index != self._writing:
                self._events.append(ToolCallStarted(call.id, call.name))
                if arguments and not whole:
                    self._events.append(ToolCallDelta(arguments))
            if whole:
                self._events.append(ToolCallFinished(arguments))
        self._writing = None
        if late := "".join(self._late):
            self._events.append(TextDelta(late))

    # ------------------------------------------------------------------ the end

    def _stopped(self, reason: str) -> None:
        if reason in ("error", "insufficient_system_resource"):
            raise StreamBrokenError(f"The server broke off the reply ({reason}).")
        self._stop = STOPS.get(reason, "unknown")
        self._detail = reason if self._stop == "unknown" else ""

    def _end(self) -> None:
        if self._stop is None and self._calls:
            raise StreamBrokenError("The reply ended inside a tool call.")
        self._end_thinking()
        if rest := self._joiner.flush():
            self._say(rest)
        stop = self._stop or "unknown"
        finished = stop not in ("max_tokens", "context_window_exceeded")
        self._end_calls(finished)
        written = self._text_calls.end() if self._text_calls is not None else []
        self._events += written
        has_calls = bool(self._calls and finished) or any(isinstance(event, ToolCallFinished) for event in written)
        if has_calls and stop in ("end_turn", "tool_use", "unknown", "stop_sequence"):
            stop = "tool_use"
        elif stop == "tool_use":
            stop = "end_turn"
        if self._refusal and stop == "end_turn":
            stop, self._detail = "refusal", "".join(self._refusal)
        self.finished = True
        self._events.append(Completed(stop, self._usage, self._detail))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
