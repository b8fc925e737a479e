"""Who uses the window: every part of the next request with its tokens, which together are exactly what the gauge shows."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from agent.context import tokens
from agent.context.meter import Meter
from agent.context.reports import is_reasoning
from agent.transcript import Compaction
from agent.window import Window
from providers.types import AssistantMessage, Message, ToolCall, ToolResultMessage

PartKind = Literal[
    "system", "tools", "instructions", "summary", "pins", "user", "assistant", "thinking", "tool_results", "reminders"
]
_Share = tuple[PartKind, str, int, tuple[int, ...]]


class Part(Struct, frozen=True):
    """One row. `name`: the section, the tool, else empty; `entries`: keys of the entries it was made of."""

    kind: PartKind
    name: str
    tokens: int
    entries: tuple[int, ...]


def breakdown(window: Window, meter: Meter) -> list[Part]:
    """The parts in the order of the request, those of one kind and name together; the sum is `meter.used().tokens`.

    Each part's share is estimated alike, and the whole is what was measured.
    """
    merged: dict[tuple[PartKind, str], tuple[int, list[int]]] = {}
    for kind, name, size, keys in (*_prefix_shares(window, meter), *_message_shares(window, meter)):
        total, entries = merged.get((kind, name), (0, []))
        entries.extend(keys)
        merged[kind, name] = (total + size, entries)
    sizes = _scaled([total for total, _ in merged.values()], meter.used().tokens)
    return [
        Part(kind, name, size, tuple(dict.fromkeys(entries)))
        for ((kind, name), (_, entries)), size in zip(merged.items(), sizes, strict=True)
    ]


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
    """Tokens of what stands before the messages, which no compaction removes."""
    return sum(part.tokens for part in parts if part.kind in ("system", "tools", "instructions"))


def _prefix_shares(window: Window, meter: Meter) -> Iterator[_Share]:
    for section in window.prefix.sections:
        kind: PartKind = "instructions" if section.name.startswith("instructions") else "system"
        yield kind, section.name, tokens.section_tokens(meter.counter, section), ()
    for tool in window.prefix.tools:
        yield "tools", tool.name, tokens.tool_tokens(meter.counter, tool), ()


def _message_shares(window: Window, meter: Meter) -> Iterator[_Share]:
    image = tokens.image_tokens(window.api)
    tools: dict[str, str] = {}
    for index, message in enumerate(window.messages):
        keys = window.keys[index]
        own = message.blocks[: len(message.blocks) - max(0, len(keys) - 1)]
        if isinstance(message, AssistantMessage):
            tools.update({block.id: block.name for block in message.blocks if isinstance(block, ToolCall)})
        thinking = [block for block in own if is_reasoning(block)]
        sizes = [(block, tokens.block_tokens(meter.counter, block, image)) for block in own]
        kind, name = _kind(window, index, message, tools)
        rest = sum(size for block, size in sizes if not is_reasoning(block)) + tokens.message_overhead(message)
        yield kind, name, rest, keys[:1]
        if thinking:
            yield "thinking", "", sum(size for block, size in sizes if is_reasoning(block)), keys[:1]
        for key, block in zip(keys[1:], message.blocks[len(own) :], strict=True):
            yield (
                "pins" if key in window.pins else "reminders",
                "",
                tokens.block_tokens(meter.counter, block, image),
                (key,),
            )


def _kind(window: Window, index: int, message: Message, tools: dict[str, str]) -> tuple[PartKind, str]:
    if isinstance(message, ToolResultMessage):
        return "tool_results", tools.get(message.call_id, "")
    if isinstance(message, AssistantMessage):
        return "assistant", ""
    if index == 0 and window.compaction is not None and isinstance(window.compaction.payload, Compaction):
        return "summary", ""
    return "user", ""


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
