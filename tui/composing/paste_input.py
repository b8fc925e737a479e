"""Takes pasted text out of what the terminal sends, whole and at once.

Textual's parser looks at each character of a paste by itself, which takes over a second for a megabyte. Whatever is not
between the two marks of a bracketed paste is left to it, a mark that arrives in pieces included.
"""

from collections.abc import Iterator

from msgspec import Struct

BEGIN, END = "\x1b[200~", "\x1b[201~"


class Keys(Struct, frozen=True):
    """Input for the parser."""

    text: str


class Pasted(Struct, frozen=True):
    text: str


class PasteSplitter:
    """Feed it decoded input; it gives back keys and pastes in order."""

    def __init__(self) -> None:
        self._held = ""
        """The beginning of a mark at the end of the input so far."""
        self._pieces: list[str] | None = None
        """Of the paste that is coming in."""

    @property
    def waits(self) -> bool:
        """Whether something was held back, or a paste has begun and not ended."""
        return bool(self._held) or self._pieces is not None

    @property
    def in_paste(self) -> bool:
        return self._pieces is not None

    def feed(self, text: str, *, more: bool = False) -> Iterator[Keys | Pasted]:
        """`more`: further input is known to wait. Without it a lone Escape at the end is a key."""
        text, self._held = self._held + text, ""
        while text:
            if self._pieces is None:
                before, found, text = text.partition(BEGIN)
                if found:
                    self._pieces = []
                else:
                    kept = _begun(before, BEGIN, least=1 if more else 2)
                    before, self._held = before[: len(before) - kept], before[len(before) - kept :]
                if before:
                    yield Keys(before)
            else:
                inside, found, text = text.partition(END)
                if not found:
                    kept = _begun(inside, END)
                    inside, self._held = inside[: len(inside) - kept], inside[len(inside) - kept :]
                self._pieces.append(inside)
                if found:
                    yield self._whole()

    def give_up(self) -> Iterator[Keys | Pasted]:
        """Nothing more has come for a while: what was held back is what it looks like, and the paste is over."""
        held, self._held = self._held, ""
        if self._pieces is not None:
            self._pieces.append(held)
            yield self._whole()
        elif held:
            yield Keys(held)

    def _whole(self) -> Pasted:
        pieces, self._pieces = self._pieces or [], None
        return Pasted("".join(pieces))


def _begun(text: str, mark: str, least: int = 1) -> int:
    """How many characters at the end of the text may be the beginning of the mark; 0 if fewer than `least`."""
    for length in range(min(len(mark) - 1, len(text)), least - 1, -1):
        if text.endswith(mark[:length]):
            return length
    return 0
