"""The whole text of one part of a window, for the screen: also of what was dropped, shortened, cleared or spilled."""

from collections.abc import Callable, Mapping
from xml.sax.saxutils import quoteattr

import msgspec

from agent.context.pieces import Piece
from agent.context.pins import pin_text
from agent.transcript import Assistant, Compaction, Entry, Pin, Prefix, Reminder, Result, User
from agent.window import MISSING_RESULT
from agent.window_blocks import user_blocks
from providers.types import AssistantBlock, ImageBlock, OpaqueBlock, TextBlock, ThinkingBlock, ToolCall, UserBlock

_TAG, _TAG_END = "<project_instructions path=", "</project_instructions>"


def whole_text(
    piece: Piece, by_key: Mapping[int, Entry], recorded: Mapping[int, str], prefix: Prefix, blob: Callable[[str], bytes]
) -> str:
    """`by_key`: the branch; `recorded`: texts that compactions keep for pins; `blob` gives a spilled output by its hash
    (KeyError: it is lost, then what was kept in the entry is shown). Foreign text."""
    if not piece.keys:
        return _of_prefix(piece, prefix)
    return "\n\n".join(_of_entry(by_key[key], piece, by_key, recorded, blob) for key in piece.keys if key in by_key)


def _of_prefix(piece: Piece, prefix: Prefix) -> str:
    match piece.kind:
        case "tools" | "mcp":
            tool = next((tool for tool in prefix.tools if tool.name == piece.name), None)
            if tool is None:
                return ""
            schema = msgspec.json.format(msgspec.json.encode(tool.parameters), indent=2).decode()
            return f"{tool.description}\n\n{schema}"
        case "instructions":
            text = "\n\n".join(s.text for s in prefix.sections if s.name.startswith("instructions"))
            start = text.find(_TAG + quoteattr(piece.name))
            return text[start : text.index(_TAG_END, start) + len(_TAG_END)] if start >= 0 else text
        case "system":
            return next((section.text for section in prefix.sections if section.name == piece.name), "")
    return MISSING_RESULT


def _of_entry(
    entry: Entry,
    piece: Piece,
    by_key: Mapping[int, Entry],
    recorded: Mapping[int, str],
    blob: Callable[[str], bytes],
) -> str:
    match entry.payload:
        case User() as user:
            return _text(user_blocks(entry.key, user, {}))
        case Assistant(blocks=blocks):
            shown = [text for block in blocks if (text := _of_reply(block, piece.kind == "thinking"))]
            return "\n\n".join(shown)
        case Result(spill=spill, blocks=result_blocks):
            if spill is not None:
                try:
                    return blob(spill.sha256).decode("utf-8", "replace")
                except KeyError:
                    pass
            return _text(result_blocks)
        case Reminder(text=text) | Compaction(text=text):
            return text
        case Pin(keys=keys, text=text):
            return (recorded.get(entry.key) or pin_text(entry, by_key)) if keys else text
    return ""


def _of_reply(block: AssistantBlock, thinking: bool) -> str:
    match block:
        case ThinkingBlock(text=text):
            return text if thinking else ""
        case OpaqueBlock(raw=raw):
            return msgspec.json.format(msgspec.json.encode(raw), indent=2).decode() if thinking else ""
        case TextBlock(text=text):
            return "" if thinking else text
        case ToolCall(name=name, arguments=arguments):
            return "" if thinking else f"→ {name} {arguments}"


def _text(blocks: tuple[UserBlock, ...]) -> str:
    return "\n".join(
        f"[image, {block.media_type}, {block.width} × {block.height}]" if isinstance(block, ImageBlock) else block.text
        for block in blocks
    )
