"""Who uses the window: every part of the next request with its tokens, which together are exactly what the gauge shows.

A share is what one entry, section, tool or instruction file has; a part is all shares of one kind and name. Decisions:
instruction files share the text of the instruction sections in proportion to their recorded tokens; what stands there
without a recorded file is a part under the section's name. A tool result goes by the tool and, where the call names a file
that is read or changed, by that file as the call wrote it.
"""

import posixpath
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from agent.context import tokens
from agent.context.meter import Meter
from agent.context.reports import is_reasoning
from agent.window import Window
from providers.types import AssistantMessage, ImageBlock, Message, ToolCall, ToolResultMessage

PartKind = Literal[
    "system",
    "tools",
    "mcp",
    "instructions",
    "summary",
    "pins",
    "user",
    "assistant",
    "thinking",
    "tool_results",
    "images",
    "reminders",
]
FIXED_KINDS: frozenset[PartKind] = frozenset({"system", "tools", "mcp", "instructions"})
"""What stands before the messages, which no compaction removes."""
_MCP_NAME = "mcp__"
_FILE_TOOLS = frozenset({"read", "write", "edit"})


class Share(Struct, frozen=True):
    """What one source has of the window. `name`: the section, the tool (with its file), the instruction file, else empty."""

    kind: PartKind
    name: str
    tokens: int
    key: int | None = None
    """Its entry; None for what stands before the messages, and for what stands in place of a missing result."""


class Part(Struct, frozen=True):
    """One row: all shares of one kind and name. `entries`: keys of the entries it was made of."""

    kind: PartKind
    name: str
    tokens: int
    entries: tuple[int, ...]


class _Path(Struct, frozen=True):
    """Of a call's arguments, what says which file it is about."""

    path: str = ""


def shares(window: Window, meter: Meter) -> list[Share]:
    """The shares in the order of the request; the sum is `meter.used().tokens`.

    Each is estimated alike, and the whole is what was measured.
    """
    # What a provider adds around every request belongs to what stands before the messages.
    fixed = _sized(list(_prefix_shares(window, meter)), meter.floor_tokens)
    return _sized([*fixed, *_message_shares(window, meter)], meter.used().tokens)


def breakdown(window: Window, meter: Meter) -> list[Part]:
    """The parts in the order of the request; the sum is `meter.used().tokens`."""
    merged: dict[tuple[PartKind, str], tuple[int, list[int]]] = {}
    for share in shares(window, meter):
        total, entries = merged.get((share.kind, share.name), (0, []))
        if share.key is not None:
            entries.append(share.key)
        merged[share.kind, share.name] = (total + share.tokens, entries)
    return [Part(*name, size, tuple(dict.fromkeys(entries))) for name, (size, entries) in merged.items()]


def biggest(parts: Sequence[Part], window: Window, count: int = 3) -> str:
    """The kinds that use most of the window, in words, instruction files by name."""
    kinds: dict[PartKind, int] = {}
    for part in parts:
        kinds[part.kind] = kinds.get(part.kind, 0) + part.tokens
    named = []
    for kind, size in sorted(kinds.items(), key=lambda item: -item[1])[:count]:
        files = [file.path for file in window.prefix.instruction_files] if kind == "instructions" else []
        named.append(f"{kind.replace('_', ' ')} {size:,}" + (f" ({', '.join(files[:3])})" if files else ""))
    return ", ".join(named)


def fixed_tokens(parts: Sequence[Part]) -> int:
    """Tokens of what stands before the messages."""
    return sum(part.tokens for part in parts if part.kind in FIXED_KINDS)


def _prefix_shares(window: Window, meter: Meter) -> Iterator[Share]:
    prefix, counter = window.prefix, meter.counter
    of_files = [s for s in prefix.sections if prefix.instruction_files and s.name.startswith("instructions")]
    for section in prefix.sections:
        size = meter.calibrated(tokens.section_tokens(counter, section))
        if not of_files or section not in of_files:
            kind: PartKind = "instructions" if section.name.startswith("instructions") else "system"
            yield Share(kind, section.name, size)
        elif section is of_files[0]:
            whole = meter.calibrated(sum(tokens.section_tokens(counter, s) for s in of_files))
            sizes = _scaled([max(1, file.tokens) for file in prefix.instruction_files], whole)
            for file, share in zip(prefix.instruction_files, sizes, strict=True):
                yield Share("instructions", file.path, share)
    for tool in prefix.tools:
        kind = "mcp" if tool.name.startswith(_MCP_NAME) else "tools"
        yield Share(kind, tool.name, meter.calibrated(tokens.tool_tokens(counter, tool)))


def _message_shares(window: Window, meter: Meter) -> Iterator[Share]:
    called: dict[str, str] = {}
    summaries = window.summaries
    for message, keys, size in zip(window.messages, window.keys, meter.all_message_tokens(), strict=True):
        if isinstance(message, AssistantMessage):
            called.update((block.id, _label(block)) for block in message.blocks if isinstance(block, ToolCall))
        key = keys[0] if keys else None
        beside = list(_beside(window, meter, message, keys))
        rest = max(0, size - sum(share.tokens for share in beside))
        if isinstance(message, ToolResultMessage):
            yield Share("tool_results", called.get(message.call_id, ""), rest, key)
        elif isinstance(message, AssistantMessage):
            yield Share("assistant", "", rest, key)
        else:
            yield Share("summary" if key in summaries else "user", "", rest, key)
        yield from beside


def _beside(window: Window, meter: Meter, message: Message, keys: tuple[int, ...]) -> Iterator[Share]:
    """What of a message is told apart from the message itself: thinking, images, and what rides on it."""
    own = message.blocks[: len(message.blocks) - max(0, len(keys) - 1)]
    key = keys[0] if keys else None
    if thinking := [block for block in own if is_reasoning(block)]:
        size = sum(tokens.block_tokens(meter.counter, block) for block in thinking)
        yield Share("thinking", "", meter.calibrated(size), key)
    if images := [block for block in own if isinstance(block, ImageBlock)]:
        yield Share("images", "", sum(map(meter.image_tokens, images)), key)
    for rider in keys[1:]:
        yield Share("pins" if rider in window.pins else "reminders", "", meter.own_tokens(rider), rider)


def _label(call: ToolCall) -> str:
    if call.name not in _FILE_TOOLS:
        return call.name
    try:
        path = msgspec.json.decode(call.arguments.encode("utf-8", "replace"), type=_Path).path
    except (msgspec.DecodeError, RecursionError):
        return call.name
    return f"{call.name} {posixpath.normpath(path)}" if path else call.name


def _sized(found: Sequence[Share], total: int) -> list[Share]:
    sizes = _scaled([share.tokens for share in found], total)
    return [Share(share.kind, share.name, size, share.key) for share, size in zip(found, sizes, strict=True)]


def _scaled(sizes: Sequence[int], total: int) -> list[int]:
    """The sizes in proportion, as whole numbers that sum up to `total` (largest remainders are rounded up)."""
    everything = sum(sizes)
    if not everything:
        return [0 for _ in sizes]
    scaled = [size * total // everything for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda i: -(sizes[i] * total % everything))
    for index in by_remainder[: total - sum(scaled)]:
        scaled[index] += 1
    return scaled
