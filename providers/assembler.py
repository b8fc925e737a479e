"""The one fold from stream events to the blocks of an assistant message, of a whole reply as of one that was cut off.

It decides what an end in the middle means: a call whose arguments were cut is kept as unfinished and never runs.
"""

from collections.abc import Callable, Container

import msgspec

from providers.types import (
    AssistantBlock,
    Completed,
    OpaqueReceived,
    Ping,
    StopReason,
    StreamEvent,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ThinkingFinished,
    ToolCall,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from providers.unicode import clean

_CUTTING: frozenset[StopReason] = frozenset({"max_tokens", "context_window_exceeded"})


class _Open:
    """The block that deltas go to."""

    def __init__(
        self, kind: type[TextBlock] | type[ThinkingBlock] | type[ToolCall], id: str = "", name: str = ""
    ) -> None:
        self.kind = kind
        self.id = id
        self.name = name
        self.pieces: list[str] = []

    def block(self, finished: bool = False, signature: str | None = None) -> AssistantBlock:
        text = "".join(self.pieces)
        if self.kind is TextBlock:
            return TextBlock(text)
        if self.kind is ThinkingBlock:
            return ThinkingBlock(text, signature)
        return ToolCall(self.id, self.name, text, finished)


class Assembler:
    """Feed it every event of one stream in order; its attributes say at any time what came so far."""

    def __init__(self, taken: Container[str] = ()) -> None:
        """`taken` are ids of calls that the conversation has already: servers use theirs again."""
        self.usage = Usage()
        """The newest report, all zero if there was none."""
        self.stop_reason: StopReason | None = None
        """None until the stream is complete."""
        self.detail = ""
        self.completed = False
        self._blocks: list[AssistantBlock] = []
        self._open: _Open | None = None
        self._taken = taken
        self._call_ids: set[str] = set()
        self._feed: dict[type[StreamEvent], Callable[..., None]] = {
            TextDelta: self._text,
            ThinkingDelta: self._thinking,
            ThinkingFinished: self._thinking_finished,
            ToolCallStarted: self._call_started,
            ToolCallDelta: self._call_delta,
            ToolCallFinished: self._call_finished,
            OpaqueReceived: self._opaque,
            Ping: self._nothing,
            UsageReported: self._reported,
            Completed: self._complete,
        }

    def feed(self, event: StreamEvent) -> None:
        self._feed[type(event)](event)

    def blocks(self, finished_only: bool = False) -> tuple[AssistantBlock, ...]:
        """What came so far, in order; empty text is left out.

        With `finished_only` without what the stream did not close: the block that is still open, and unfinished calls.
        """
        blocks = list(self._blocks)
        if self._open is not None and not finished_only:
            blocks.append(self._open.block())
        return tuple(
            block
            for block in blocks
            if not (isinstance(block, TextBlock) and not block.text)
            and not (finished_only and isinstance(block, ToolCall) and not block.finished)
        )

    @property
    def empty(self) -> bool:
        """Whether nothing of a message came yet."""
        return not self._blocks and self._open is None

    @property
    def open_call(self) -> tuple[str, str]:
        """Id and name of the call that is being written, as its block will have them; empty if none is."""
        opened = self._open
        return (opened.id, opened.name) if opened is not None and opened.kind is ToolCall else ("", "")

    def _close(self) -> None:
        """Close the open block without its own closing event."""
        if self._open is not None:
            self._blocks.append(self._open.block())
            self._open = None

    def _pieces(self, kind: type[TextBlock] | type[ThinkingBlock], opens_block: bool) -> list[str]:
        if opens_block or self._open is None or self._open.kind is not kind:
            self._close()
            self._open = _Open(kind)
        return self._open.pieces

    def _text(self, event: TextDelta) -> None:
        self._pieces(TextBlock, event.opens_block).append(event.text)

    def _thinking(self, event: ThinkingDelta) -> None:
        self._pieces(ThinkingBlock, event.opens_block).append(event.text)

    def _thinking_finished(self, event: ThinkingFinished) -> None:
        opened = self._open
        if opened is not None and opened.kind is ThinkingBlock:
            self._blocks.append(opened.block(signature=event.signature))
            self._open = None
        elif event.signature is not None:
            # The text was withheld; the signature alone must still go back.
            self._close()
            self._blocks.append(ThinkingBlock("", event.signature))

    def _call_started(self, event: ToolCallStarted) -> None:
        self._close()
        self._open = _Open(ToolCall, self._unique(clean(event.id)), clean(event.name))

    def _unique(self, call_id: str) -> str:
        """Results find their call by its id, so that none may be empty or stand twice in one conversation."""
        wanted = call_id or "call"
        unique, number = wanted, 2
        if not call_id:
            unique = "call_1"
        while unique in self._call_ids or unique in self._taken:
            unique = f"{wanted}_{number}"
            number += 1
        self._call_ids.add(unique)
        return unique

    def _call_delta(self, event: ToolCallDelta) -> None:
        if self._open is not None and self._open.kind is ToolCall:
            self._open.pieces.append(event.fragment)

    def _call_finished(self, event: ToolCallFinished) -> None:
        opened = self._open
        if opened is None or opened.kind is not ToolCall:
            return
        if event.arguments is not None:
            opened.pieces = [event.arguments]
        self._blocks.append(opened.block(finished=True))
        self._open = None

    def _opaque(self, event: OpaqueReceived) -> None:
        self._close()
        self._blocks.append(event.block)

    def _nothing(self, event: Ping) -> None:
        """The connection lives; that is the watchdog's business."""

    def _reported(self, event: UsageReported) -> None:
        self.usage = event.usage

    def _complete(self, event: Completed) -> None:
        self._close()
        if event.usage.reported or event.usage.output_tokens:
            self.usage = event.usage
        self.stop_reason, self.detail, self.completed = event.stop_reason, event.detail, True
        last = self._blocks[-1] if self._blocks else None
        if event.stop_reason in _CUTTING and isinstance(last, ToolCall) and not _is_object(last.arguments):
            # Providers close the block all the same when the limit cuts its arguments.
            self._blocks[-1] = msgspec.structs.replace(last, finished=False)


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
