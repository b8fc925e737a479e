"""Finds again what a session said and did, whatever became of it in the window: search by words, and whole entries by key.

It looks at everything in the transcript, abandoned branches included; what claw wrote itself (records, reminders, cleared
texts) and earlier searches are left out, since they only repeat. Decisions: a search without a hit for the whole phrase
takes the entries that hold all words, then those that hold the most of them; the newest come first. Spilled outputs are
searched where the entries do not give enough.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from agent.replay import user_text
from agent.transcript import Assistant, Compaction, Entry, Pin, Result, Spill, Transcript, User
from providers.types import TextBlock, ThinkingBlock, ToolCall

TOOL = "recall"
MOST_HITS = 20
_AROUND_CHARS = 160
"""Shown on either side of what was found."""
_MOST_WORDS = 16
_MOST_SPILLED_BYTES = 32 * 1024 * 1024
"""Of spilled output that one search looks through, the newest first."""
_MOST_SESSIONS = 50
_WORD = re.compile(r'"([^"]+)"|(\S+)')


class Hit(Struct, frozen=True):
    """One entry that was found."""

    key: int
    kind: str
    """user, assistant, result, compaction or pin."""
    name: str
    """The tool of a result; else empty."""
    time_ms: int
    excerpt: str
    """One line of foreign text around what was found."""
    session: str = ""
    """Id of another session; empty: this one."""


class OtherSession(Struct, frozen=True):
    """A session of the same project, as it was read."""

    id: str
    entries: tuple[Entry, ...]


class Recall:
    """Searches one transcript. What was looked at once is kept in the form that searching needs."""

    def __init__(
        self,
        transcript: Transcript,
        blob: Callable[[str], bytes],
        others: Callable[[], Iterable[OtherSession]] = tuple,
    ) -> None:
        """`blob` gives a spilled output by its hash (KeyError: it is lost); `others` reads the project's other sessions,
        newest first."""
        self._transcript = transcript
        self._blob = blob
        self._others = others
        self._pages: list[_Page] = []
        self._seen = 0

    def search(self, words: str, limit: int = MOST_HITS) -> list[Hit]:
        """The entries of this session that hold the words, best first; empty if nothing does or nothing is asked."""
        query = _Query(words)
        if not query:
            return []
        self._index()
        hits = query.best(self._pages, limit)
        if len(hits) < limit:
            found = {hit.key for hit in hits}
            hits += query.best(self._spilled(found), limit - len(hits))
        return hits

    def search_project(self, words: str, limit: int = MOST_HITS) -> list[Hit]:
        """The same over the project's other sessions; reads their files, so call it in a thread."""
        query = _Query(words)
        hits: list[Hit] = []
        if not query:
            return hits
        for number, other in enumerate(self._others()):
            if len(hits) >= limit or number >= _MOST_SESSIONS:
                break
            pages = [page for entry in other.entries if (page := _page(entry, other.id)) is not None]
            hits += query.best(pages, limit - len(hits))
        return hits

    def entry(self, key: int, session: str = "") -> str | None:
        """All the text of an entry as it was recorded, spilled output whole; None if there is no such entry.

        For an entry of another session its file is read, so call it in a thread.
        """
        if not session:
            entry = self._transcript.get(key)
            return None if entry is None else self._whole(entry)
        for other in self._others():
            if other.id == session:
                found = next((entry for entry in other.entries if entry.key == key), None)
                return None if found is None else entry_text(found)
        return None

    # ------------------------------------------------------------------ inside

    def _index(self) -> None:
        newest = self._transcript.head or 0
        for key in range(self._seen + 1, newest + 1):
            entry = self._transcript.get(key)
            if entry is not None and (page := _page(entry)) is not None:
                self._pages.append(page)
        self._seen = newest

    def _whole(self, entry: Entry) -> str:
        spill = entry.payload.spill if isinstance(entry.payload, Result) else None
        if spill is not None and (text := self._spill_text(spill)) is not None:
            return text
        return entry_text(entry)

    def _spill_text(self, spill: Spill) -> str | None:
        try:
            return self._blob(spill.sha256).decode("utf-8", "replace")
        except KeyError:
            return None

    def _spilled(self, found: set[int]) -> Iterator["_Page"]:
        left = _MOST_SPILLED_BYTES
        for page in reversed(self._pages):
            payload = page.entry.payload
            if page.entry.key in found or not isinstance(payload, Result) or payload.spill is None:
                continue
            left -= payload.spill.size_bytes
            if left < 0:
                return
            if (text := self._spill_text(payload.spill)) is not None:
                yield _Page(page.entry, text)


class _Page:
    """An entry's text, and the form in which it is searched."""

    def __init__(self, entry: Entry, text: str, session: str = "") -> None:
        self.entry = entry
        self.text = text
        self.folded = text.lower()
        self.session = session


def _page(entry: Entry, session: str = "") -> _Page | None:
    if isinstance(entry.payload, Result) and entry.payload.tool == TOOL:
        return None
    text = entry_text(entry)
    return _Page(entry, text, session) if text.strip() else None


def entry_text(entry: Entry) -> str:
    """What was said or done in an entry, as plain text; empty for what only changes the window."""
    match entry.payload:
        case User(synthetic=False) as user:
            return user_text(user)
        case Assistant(blocks=blocks):
            parts: list[str] = []
            for block in blocks:
                match block:
                    case TextBlock(text=text) | ThinkingBlock(text=text):
                        parts.append(text)
                    case ToolCall(name=name, arguments=arguments) if name != TOOL:
                        parts.append(f"{name} {arguments}")
            return "\n".join(parts)
        case Result(title=title, blocks=result_blocks):
            return "\n".join([title, *(b.text for b in result_blocks if isinstance(b, TextBlock))])
        case Compaction(summary=summary):
            return summary
        case Pin(text=text):
            return text
    return ""


class _Query:
    """What is looked for: the whole phrase, and its words."""

    def __init__(self, words: str) -> None:
        self.phrase = " ".join(words.split()).lower()
        found = _WORD.findall(words.lower())
        self.words = list(dict.fromkeys(quoted or plain for quoted, plain in found))[:_MOST_WORDS]
        if len(self.words) == 1:
            self.phrase = self.words[0]

    def __bool__(self) -> bool:
        return bool(self.words)

    def best(self, pages: Iterable[_Page], limit: int) -> list[Hit]:
        ranked = [(rank, page) for page in pages if (rank := self._rank(page.folded))]
        if any(rank >= len(self.words) for rank, _ in ranked):
            ranked = [(rank, page) for rank, page in ranked if rank >= len(self.words)]
        ranked.sort(key=lambda item: (item[0], item[1].entry.key), reverse=True)
        return [self._hit(page) for _, page in ranked[:limit]]

    def _rank(self, folded: str) -> int:
        """How many of the words are there; one more for the whole phrase; 0 if too few are."""
        if self.phrase in folded:
            return len(self.words) + 1
        count = sum(1 for word in self.words if word in folded)
        return count if count * 2 >= len(self.words) else 0

    def _hit(self, page: _Page) -> Hit:
        entry = page.entry
        name = entry.payload.tool if isinstance(entry.payload, Result) else ""
        return Hit(entry.key, entry.kind, name, entry.time_ms, self._excerpt(page), page.session)

    def _excerpt(self, page: _Page) -> str:
        wanted = [self.phrase, *sorted(self.words, key=len, reverse=True)]
        at, length = next(((place, len(word)) for word in wanted if (place := page.folded.find(word)) >= 0), (0, 0))
        # Lower case can be longer than the text it comes from, so the place may be off by a little.
        start, end = max(0, at - _AROUND_CHARS), at + length + _AROUND_CHARS
        text = " ".join(page.text[start:end].split())
        return f"{'…' if start else ''}{text}{'…' if end < len(page.text) else ''}"
