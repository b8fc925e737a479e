"""From the server-sent events of an Anthropic Messages stream to claw's stream events. Pure: no I/O, no SDK.

Deltas of one block that come in one batch are given as one. Unknown events, deltas and blocks are passed over; of blocks that
the server alone understands, those that must go back whole are kept as opaque.
"""

from typing import Any

import msgspec

from providers.anthropic_events import WireDelta, WireError, WireEvent, WireUsage, parse_event
from providers.errors import ProtocolError, ProviderError, classify
from providers.figures import tokens
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
from providers.unicode import SurrogateJoiner

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "pause_turn": "pause_turn",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_window_exceeded",
}


class AnthropicDecoder:
    """Decodes one stream, until it is `finished` or there is a `failure`; see `EventDecoder`."""

    def __init__(self, family: str) -> None:
        """`family` is the model family that opaque blocks are marked with."""
        self.finished = False
        self.failure: ProviderError | None = None
        self._family = family
        self._usage = Usage()
        self._stop_reason: str | None = None
        self._detail = ""
        self._kind = ""
        """The type of the open block, "" if none is."""
        self._index = -1
        self._block: dict[str, Any] = {}
        self._raw_input: list[str] = []
        self._signature = ""
        self._last_kind = ""
        self._joiner = SurrogateJoiner()
        self._out: list[StreamEvent] = []

    def end(self) -> list[StreamEvent]:
        """Nothing: the API says itself when a reply is complete."""
        return []

    def feed(self, events: list[SseEvent]) -> list[StreamEvent]:
        """See `EventDecoder.feed`."""
        self._out = []
        pieces: list[str] = []
        try:
            for name, data in events:
                if self.finished:
                    break
                self._take(parse_event(name, data), pieces)
        except ProviderError as error:
            self.failure = error
        self._flush(pieces)
        return self._out or [Ping()]

    def _take(self, event: WireEvent | None, pieces: list[str]) -> None:
        """Handle one event; the pieces that neighbouring deltas add to the open block are collected in `pieces` first."""
        if event is None:
            return
        delta = event.delta
        if delta is not None and event.index == self._index and event.type == "content_block_delta":
            if delta.type == "text_delta" and self._kind == "text":
                pieces.append(delta.text)
                return
            if delta.type == "thinking_delta" and self._kind == "thinking":
                pieces.append(delta.thinking)
                return
            if delta.type == "input_json_delta":
                pieces.append(delta.partial_json)
                return
        self._flush(pieces)
        self._handle(event)

    def _flush(self, pieces: list[str]) -> None:
        if not pieces:
            return
        joined = "".join(pieces)
        pieces.clear()
        match self._kind:
            case "text":
                self._text(joined)
            case "thinking":
                self._thinking(joined)
            case _:
                self._input(joined)

    # ------------------------------------------------------------------ one event

    def _handle(self, event: WireEvent) -> None:
        match event.type:
            case "message_start":
                if event.message is not None and event.message.usage is not None:
                    self._report(event.message.usage)
            case "content_block_start":
                self._start(event.index, event.content_block or {})
            case "content_block_delta":
                if event.delta is not None:
                    self._delta(event.index, event.delta)
            case "content_block_stop":
                self._stop()
            case "message_delta":
                self._message_delta(event)
            case "message_stop":
                self._finish()
            case "error":
                raise _failure(event)

    def _start(self, index: int, block: dict[str, Any]) -> None:
        self._stop()  # of servers that do not close their blocks
        self._kind = str(block.get("type", ""))
        self._index, self._block = index, block
        self._raw_input, self._signature, self._joiner = [], "", SurrogateJoiner()
        match self._kind:
            case "text":
                self._text(str(block.get("text") or ""), opens=True)
            case "thinking":
                self._signature = str(block.get("signature") or "")
                self._thinking(str(block.get("thinking") or ""))
            case "tool_use":
                self._out.append(ToolCallStarted(str(block.get("id") or ""), str(block.get("name") or "")))

    def _delta(self, index: int, delta: WireDelta) -> None:
        if not self._kind and delta.type == "text_delta":
            self._start(index, {"type": "text"})  # a server that does not open its blocks
        if index != self._index:
            raise ProtocolError(f"The server wrote to block {index} while block {self._index} was open.")
        match delta.type:
            case "text_delta" if self._kind == "text":
                self._text(delta.text)
            case "signature_delta":
                self._signature += delta.signature

    def _thinking(self, text: str) -> None:
        if text := self._joiner.feed(text):
            self._out.append(ThinkingDelta(text))

    def _input(self, piece: str) -> None:
        piece = self._joiner.feed(piece)
        if not piece:
            return
        self._raw_input.append(piece)
        if self._kind == "tool_use":
            self._out.append(ToolCallDelta(piece))

    def _text(self, text: str, opens: bool = False) -> None:
        text = self._joiner.feed(text)
        if opens and self._last_kind == "text":
            # A second text block in a row needs a piece to open it, be it empty.
            self._out.append(TextDelta(text, opens_block=True))
        elif text:
            self._out.append(TextDelta(text))

    def _stop(self) -> None:
        kind, self._kind = self._kind, ""
        held = self._joiner.flush()
        match kind:
            case "text":
                if held:
                    self._out.append(TextDelta(held))
            case "thinking":
                if held:
                    self._out.append(ThinkingDelta(held))
                self._out.append(ThinkingFinished(self._signature or None))
            case "tool_use":
                self._out.append(ToolCallFinished(self._arguments(held)))
            case _ if _goes_back(kind):
                self._out.append(OpaqueReceived(OpaqueBlock("anthropic", self._family, self._opaque())))
            case _:
                return  # nothing of it was given on
        self._last_kind = kind

    def _arguments(self, held: str) -> str | None:
        """The whole arguments where the pieces alone do not give them."""
        if self._raw_input:
            return "".join([*self._raw_input, held]) if held else None
        # Nothing was streamed: the call has no arguments, or the server sent them in one piece.
        return msgspec.json.encode(self._block.get("input") or {}).decode()

    def _opaque(self) -> dict[str, Any]:
        raw = self._block
        if self._raw_input:
            try:
                raw = {**raw, "input": msgspec.json.decode("".join(self._raw_input))}
            except msgspec.DecodeError as error:
                raise ProtocolError(f"The input of a {raw.get('type')} block is no JSON: {error}") from error
        return raw

    def _message_delta(self, event: WireEvent) -> None:
        if event.usage is not None:
            self._report(event.usage)
        if event.delta is None:
            return
        self._stop_reason = event.delta.stop_reason or self._stop_reason
        if (details := event.delta.stop_details) is not None:
            self._detail = details.explanation or details.category or ""

    def _report(self, usage: WireUsage) -> None:
        """Reports are cumulative; a server that repeats only a part of them leaves the rest out or at 0."""
        old, details = self._usage, usage.output_tokens_details
        self._usage = Usage(
            max(old.input_tokens, tokens(usage.input_tokens)),
            max(old.cache_read_tokens, tokens(usage.cache_read_input_tokens)),
            max(old.cache_write_tokens, tokens(usage.cache_creation_input_tokens)),
            max(old.output_tokens, tokens(usage.output_tokens)),
            max(old.thinking_tokens, tokens(details.get("thinking_tokens")) if isinstance(details, dict) else 0),
        )
        self._out.append(UsageReported(self._usage))

    def _finish(self) -> None:
        self._stop()
        named = self._stop_reason
        reason = _STOP_REASONS.get(named or "", "unknown")
        detail = self._detail or ("" if reason != "unknown" else named or "no stop reason was given")
        self._out.append(Completed(reason, self._usage, detail))
        self.finished = True


def _failure(event: WireEvent) -> ProviderError:
    error = event.error or WireError()
    return classify(error.message or "The server reported a failure.", kind=error.type, request_id=event.request_id)


def _goes_back(kind: str) -> bool:
    return kind in ("redacted_thinking", "server_tool_use", "mcp_tool_use", "container_upload") or kind.endswith(
        "_tool_result"
    )
