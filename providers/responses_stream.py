"""The fold from the events of a Responses stream to claw's stream events. Pure: JSON text in, events out.

Decisions: a call is finished by its `output_item.done`, or by `arguments.done` once something follows it, and never by the
end of the stream; items that only the final `response` shows are taken from there; whatever arrives while a call is being
written waits until that call is over, so that blocks never interleave.
"""

from typing import Any

from providers.deltas import merge_deltas
from providers.errors import ProviderError, StreamBrokenError
from providers.responses_events import (
    WireEvent,
    argument_text,
    call_id,
    decode,
    dicts,
    failure,
    json_text,
    object_of,
    stream_error,
    text_of,
    usage_of,
    word,
)
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
)
from providers.unicode import SurrogateJoiner, clean

_FINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.done"})
_INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "refusal",
    "model_context_window_exceeded": "context_window_exceeded",
}


class _Call:
    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.pieces: list[str] = []
        self.whole: str | None = None
        """What `arguments.done` said."""
        self.over = False


class ResponsesReader:
    """Decodes one stream, until it is `finished` or there is a `failure`; see `EventDecoder`."""

    def __init__(self, family: str) -> None:
        """`family` is the model family that opaque blocks are marked with."""
        self.finished = False
        self.failure: ProviderError | None = None
        self._family = family
        self._events: list[StreamEvent] = []
        self._held: list[StreamEvent] = []
        self._calls: dict[int, _Call] = {}
        self._writing: int | None = None  # output index of the call whose pieces are passed on
        self._finished_calls = 0
        self._part: tuple[str, int, int] | None = None  # kind, item and part of the newest text or thinking
        self._told: set[int] = set()  # items of which something visible was passed on
        self._done: set[int] = set()
        self._refusal: list[str] = []
        self._joiner = SurrogateJoiner()

    def end(self) -> list[StreamEvent]:
        """Nothing: the API says itself when a reply is complete."""
        return []

    def feed(self, events: list[SseEvent]) -> list[StreamEvent]:
        """See `EventDecoder.feed`."""
        found: list[StreamEvent] = []
        try:
            for name, data in events:
                if self.finished:
                    break
                found += self._read(name, data)
        except ProviderError as error:
            self.failure = error
        return merge_deltas(found) or [Ping()]

    def _read(self, name: str, data: bytes) -> list[StreamEvent]:
        if data == b"[DONE]":
            return []
        event = decode(data)
        kind = event.type or name
        self._events = []
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                self._text(event, refused=kind == "response.refusal.delta")
            case "response.reasoning_summary_text.delta":
                self._thinking(event, event.summary_index)
            case "response.reasoning_text.delta":
                self._thinking(event, event.content_index)
            case "response.function_call_arguments.delta":
                self._arguments(event)
            case "response.function_call_arguments.done":
                self._call(event).whole = argument_text(event.arguments)
            case "response.output_item.added":
                self._added(event.output_index or 0, object_of(event.item))
            case "response.output_item.done":
                self._item_done(event.output_index or 0, object_of(event.item))
            case "error":
                raise stream_error(event)
            case _ if kind in _FINAL:
                self._final(kind, event)
            case _:
                pass
        return self._events

    # ------------------------------------------------------------------ pieces

    def _emit(self, index: int, *events: StreamEvent) -> None:
        """Pass on, or hold back while another item's call is being written."""
        if self._writing is None or self._writing == index:
            self._events.extend(events)
        else:
            self._held.extend(events)

    def _text(self, event: WireEvent, refused: bool) -> None:
        index, text = event.output_index or 0, self._piece(event, "text", event.content_index or 0)
        if refused:
            self._refusal.append(text)
        if text:
            self._say(index, event.content_index or 0, text)

    def _say(self, index: int, part: int, text: str) -> None:
        self._close_calls_before(index)
        opens = self._part is not None and self._part[0] == "text" and self._part != ("text", index, part)
        self._part = ("text", index, part)
        self._told.add(index)
        self._emit(index, TextDelta(text, opens))

    def _thinking(self, event: WireEvent, part: int | None) -> None:
        if text := self._piece(event, "thinking", part or 0):
            self._think(event.output_index or 0, part or 0, text)

    def _think(self, index: int, part: int, text: str) -> None:
        opens = self._part is not None and self._part[0] == "thinking" and self._part != ("thinking", index, part)
        self._part = ("thinking", index, part)
        self._told.add(index)
        self._emit(index, ThinkingDelta(text, opens))

    def _piece(self, event: WireEvent, kind: str, part: int) -> str:
        if self._part != (kind, event.output_index or 0, part):
            self._joiner = SurrogateJoiner()
        return self._joiner.feed(text_of(event.delta))

    def _arguments(self, event: WireEvent) -> None:
        call, index = self._call(event), event.output_index or 0
        piece = text_of(event.delta)
        call.pieces.append(piece)
        if self._writing == index and piece:
            self._emit(index, ToolCallDelta(piece))

    # ------------------------------------------------------------------ items

    def _call(self, event: WireEvent) -> _Call:
        return self._calls.setdefault(event.output_index or 0, _Call("", ""))

    def _added(self, index: int, item: dict[str, Any]) -> None:
        self._close_calls_before(index)
        if item.get("type") == "function_call" and index not in self._calls:
            call = self._calls[index] = _Call(call_id(item), word(item, "name"))
            if self._writing is None:
                self._part = None
                self._emit(index, ToolCallStarted(call.id, call.name))
                self._writing = index
        elif item.get("type") == "message" and item.get("phase"):
            self._part = None
            kept = {"type": "message", "role": "assistant", "phase": item["phase"]}
            self._emit(index, OpaqueReceived(OpaqueBlock("responses", self._family, kept)))

    def _item_done(self, index: int, item: dict[str, Any]) -> None:
        self._done.add(index)
        kind = item.get("type")
        if kind == "function_call":
            self._call_done(index, item)
        elif kind == "message":
            self._message_done(index, item)
        elif kind:
            if kind == "reasoning":
                self._reasoning_done(index, item)
            self._part = None
            self._emit(index, OpaqueReceived(OpaqueBlock("responses", self._family, item)))

    def _message_done(self, index: int, item: dict[str, Any]) -> None:
        """Some servers send a message without its pieces."""
        if index in self._told:
            return
        for part, content in enumerate(dicts(item.get("content"))):
            refused = content.get("type") == "refusal"
            text = clean(word(content, "refusal" if refused else "text"))
            if refused:
                self._refusal.append(text)
            if text:
                self._say(index, part, text)

    def _reasoning_done(self, index: int, item: dict[str, Any]) -> None:
        if index not in self._told:
            for part, content in enumerate(dicts(item.get("summary")) or dicts(item.get("content"))):
                if text := clean(word(content, "text")):
                    self._think(index, part, text)
        if index in self._told:
            self._emit(index, ThinkingFinished())

    def _call_done(self, index: int, item: dict[str, Any]) -> None:
        call = self._calls.setdefault(index, _Call("", ""))
        if call.over:
            return
        if index != self._writing:
            call.id, call.name = call_id(item) or call.id, word(item, "name") or call.name
        given = item.get("arguments")
        if given is not None and given != "":
            call.whole = json_text(given)
        self._end_call(index, finished=item.get("status") != "incomplete")

    def _end_call(self, index: int, finished: bool) -> None:
        call = self._calls[index]
        call.over = True
        arguments = call.whole if call.whole is not None else clean("".join(call.pieces))
        if index != self._writing:
            self._part = None
            self._emit(index, ToolCallStarted(call.id, call.name))
            if not finished and arguments:
                self._emit(index, ToolCallDelta(arguments))
        if finished:
            self._finished_calls += 1
            self._emit(index, ToolCallFinished(arguments))
        if index == self._writing:
            self._writing = None
            self._events.extend(self._held)
            self._held = []

    def _close_calls_before(self, index: int) -> None:
        """A call whose arguments were declared whole is finished when another item begins."""
        for other, call in self._calls.items():
            if other != index and call.whole is not None and not call.over:
                self._end_call(other, finished=True)

    # ------------------------------------------------------------------ the end

    def _final(self, kind: str, event: WireEvent) -> None:
        response = object_of(event.response)
        status = word(response, "status") or kind.removeprefix("response.")
        if status == "failed" or kind == "response.failed":
            raise failure(response.get("error"))
        self._close_calls_before(-1)
        for index, item in enumerate(dicts(response.get("output"))):
            # Not behind what followed it: the order of items is part of what is sent back.
            if index > max(self._told | self._done | self._calls.keys(), default=-1):
                self._item_done(index, item)
        incomplete = status == "incomplete" or kind == "response.incomplete"
        if not incomplete and any(not call.over for call in self._calls.values()):
            raise StreamBrokenError("The reply ended inside a tool call.")
        for index, call in self._calls.items():
            if not call.over:
                self._end_call(index, finished=False)
        self.finished = True
        stop, detail = self._stop(response if incomplete else None)
        self._events.append(Completed(stop, usage_of(response.get("usage")), detail))

    def _stop(self, incomplete: dict[str, Any] | None) -> tuple[StopReason, str]:
        if incomplete is not None:
            details = incomplete.get("incomplete_details")
            reason = word(details if isinstance(details, dict) else {}, "reason")
            return _INCOMPLETE.get(reason, "unknown"), reason
        if self._finished_calls:
            return "tool_use", ""
        if self._refusal:
            return "refusal", "".join(self._refusal)
        return "end_turn", ""
