"""Takes secrets out of a text that comes in pieces, so that one that is cut between two of them is seen all the same.

It gives out what can hold no beginning of a secret any more: whole words, and no word of a private key before its end. What
it keeps back is bounded; all of it comes with `finish`.
"""

import re

from agent.redaction import Marked, Redactor
from agent.secret_places import MOST_KEY_CHARS

MOST_HELD_CHARS = 8_192
"""Of a word without an end; of a longer one all but the newest half is given out."""
_CONTEXT_CHARS = 400
"""So much of the line before a word is looked at with it: what stands there may say that the word is a secret."""
_HEADER_CHARS = 80
_HARMLESS = re.compile(r"\W{0,4}[A-Za-z]{0,20}(?:/[A-Za-z]{1,10})?\W{0,4}|[^A-Za-z]{0,12}")
"""Words that are no beginning of a secret, unless something like `sk` begins one."""
_BEGINNINGS = re.compile(r"\W*(?:sk|gh|gl|xo|xa|AK|AI|ey|hf|np|py|do|da|hv|pk|rk|wh|sh|SG|SK)", re.IGNORECASE)


class RedactionStream:
    """The pieces of one text, in order."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._line = ""
        """What was given out of the line that goes on."""
        self._held = ""
        self.marked: dict[int, Marked] = {}
        """What was taken out so far, by number."""

    @property
    def holds(self) -> bool:
        """Whether something was kept back."""
        return bool(self._held)

    def feed(self, text: str) -> str:
        """What can be given out now; it may be nothing."""
        self._held += text
        return self._give(self._safe())

    def settle(self) -> str:
        """What is kept back and can hardly be the beginning of a secret."""
        word = self._held
        if len(word) <= _HEADER_CHARS and _HARMLESS.fullmatch(word) and not _BEGINNINGS.match(word):
            return self._give(len(word))
        return ""

    def finish(self) -> str:
        """All that is left. What is fed then begins anew."""
        given = self._give(len(self._held))
        self._line = ""
        return given

    def _give(self, count: int) -> str:
        if count <= 0:
            return ""
        piece, self._held = self._held[:count], self._held[count:]
        whole = self._line + piece
        given, marked = self._redactor.render(whole, self._redactor.find(whole), len(self._line))
        for mark in marked:
            self.marked.setdefault(mark.number, mark)
        self._line = whole[max(whole.rfind("\n") + 1, len(whole) - _CONTEXT_CHARS) :]
        return given

    def _safe(self) -> int:
        """How much of what is held can be given out."""
        held = self._held
        cut = max(held.rfind(" "), held.rfind("\n"), held.rfind("\t"), held.rfind("\r")) + 1
        cut = max(cut, held.rfind("..", cut) + 1)  # a row of dots is how programs show that they work
        if len(held) - cut > MOST_HELD_CHARS:
            cut = len(held) - MOST_HELD_CHARS // 2
        cut = self._redactor.known.before_phrase(held, cut)
        if "-----BEGIN " in held:  # looked for from the front, which is quicker
            opens = held.rfind("-----BEGIN ")
            if opens < cut and self._is_open(held, opens, cut):
                cut = opens
        return cut

    @staticmethod
    def _is_open(held: str, opens: int, cut: int) -> bool:
        """Whether a private key may begin there that does not end before the cut."""
        header = held[opens + 11 : opens + _HEADER_CHARS]
        title, dashes, _ = header.partition("-----")
        if not dashes:
            return len(held) - opens < _HEADER_CHARS and "\n" not in header
        from agent.secret_search import ends_key

        return "PRIVATE KEY" in title and len(held) - opens < MOST_KEY_CHARS and not ends_key(held, opens, cut)
