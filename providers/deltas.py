"""Joins neighbouring pieces of one block, so that a fast stream costs its readers less."""

from providers.types import StreamEvent, TextDelta, ThinkingDelta, ToolCallDelta


def merge_deltas(events: list[StreamEvent]) -> list[StreamEvent]:
    """The same stream with neighbouring pieces of one block joined."""
    merged: list[StreamEvent] = []
    run: list[str] = []
    for event in events:
        last = merged[-1] if merged else None
        if isinstance(event, TextDelta | ThinkingDelta) and type(event) is type(last) and not event.opens_block:
            run.append(event.text)
        elif isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta):
            run.append(event.fragment)
        else:
            _join(merged, run)
            merged.append(event)
            run = [_piece_of(event)]
    _join(merged, run)
    return merged


def _piece_of(event: StreamEvent) -> str:
    match event:
        case TextDelta() | ThinkingDelta():
            return event.text
        case ToolCallDelta():
            return event.fragment
        case _:
            return ""


def _join(merged: list[StreamEvent], run: list[str]) -> None:
    if len(run) < 2:
        return
    last, text = merged[-1], "".join(run)
    match last:
        case TextDelta():
            merged[-1] = TextDelta(text, last.opens_block)
        case ThinkingDelta():
            merged[-1] = ThinkingDelta(text, last.opens_block)
        case _:
            merged[-1] = ToolCallDelta(text)
