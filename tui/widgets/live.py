"""The reply that is being streamed: pieces come in, blocks come out.

Pieces are looked at when a frame asks for blocks; of a very fast stream earlier, so that no frame has too much to do.
"""

from tui.sanitize import Sanitizer
from tui.widgets.blocks import Block, reply_block
from tui.widgets.splitter import Piece, Splitter
from tui.widgets.thinking import Thinking

_MOST_WAITING_CHARS = 8_192


class LiveText:
    """One text block of the reply."""

    def __init__(self) -> None:
        self._sanitizer = Sanitizer()
        self._splitter = Splitter()
        self._waiting: list[str] = []
        self._waiting_chars = 0
        self._completed: list[Block] = []
        self.blocks: list[Block] = []
        """All finished ones so far."""
        self._resolved = 0

    def feed(self, text: str) -> None:
        self._waiting.append(text)
        self._waiting_chars += len(text)
        if self._waiting_chars >= _MOST_WAITING_CHARS:
            self._split()

    def drain(self) -> list[Block]:
        """The blocks that were completed since the last call."""
        self._split()
        completed, self._completed = self._completed, []
        return completed

    def _split(self) -> None:
        if self._waiting:
            text = self._sanitizer.feed("".join(self._waiting))
            self._waiting, self._waiting_chars = [], 0
            self._completed += self._made(self._splitter.feed(text))

    def finish(self) -> list[Block]:
        """The blocks that are left."""
        done = self.drain()
        rest = self._splitter.feed(self._sanitizer.finish())
        return done + self._made(rest + self._splitter.finish())

    def tail(self) -> Block | None:
        """The unfinished block as it stands."""
        piece = self._splitter.tail()
        return reply_block(piece, self._splitter.references, streaming=True) if piece else None

    def stale(self) -> list[Block]:
        """Finished blocks that may look different since a link was defined after them."""
        known = len(self._splitter.references)
        if known == self._resolved:
            return []
        self._resolved = known
        return [block for block in self.blocks if "[" in block.text]

    def _made(self, pieces: list[Piece]) -> list[Block]:
        made = [reply_block(piece, self._splitter.references) for piece in pieces]
        self.blocks += made
        return made


class LiveThinking:
    """One thinking block of the reply; its block stands in the column from the beginning."""

    def __init__(self) -> None:
        self.block = Thinking(streaming=True)
        self._sanitizer = Sanitizer()
        self._waiting: list[str] = []

    def feed(self, text: str) -> None:
        self._waiting.append(text)

    def drain(self) -> bool:
        """Whether the block changed."""
        if not self._waiting:
            return False
        self.block.add(self._sanitizer.feed("".join(self._waiting)))
        self._waiting.clear()
        return True

    def finish(self) -> None:
        self.drain()
        self.block.add(self._sanitizer.finish())
        self.block.finish()
