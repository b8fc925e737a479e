"""What the program itself writes down of the part that a compaction replaces: the user's words, and the facts.

It is made anew each time from all entries that are replaced, those before earlier compactions included, so that nothing
is told twice or fades. Same entries and same counts give the same text. Decisions: the request in progress is the message
that began it and the newest one that steered it; wrappers count into the budget of the words; a message that the user
dropped is not recorded, and one that they shortened as they shortened it.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from agent.context.fence import fence
from agent.context.record_facts import Known, fact_sections
from agent.context.shorten import Count, common_length, cut_middle
from agent.transcript import (
    Assistant,
    AttachmentBlock,
    Clearing,
    Drop,
    Entry,
    Payload,
    Result,
    User,
    of_kinds,
    undone_keys,
)
from providers.types import ImageBlock, TextBlock, ToolCall

LEAST_WORDS_TOKENS = 100
_WRAPPER_TOKENS = 14
_NAMED_KEYS = 20


class Words(Struct, frozen=True):
    """One message of the user."""

    key: int
    text: str
    extras: str
    """What came with the words, for instance "1 image"."""
    tokens: int


class Record(Struct, frozen=True):
    text: str
    """Markdown."""
    request_tokens: int
    """Of what it holds of the request that is being worked on; 0: nothing."""

    @property
    def has_request(self) -> bool:
        return self.request_tokens > 0


def make_record(
    branch: Sequence[Entry],
    first_kept: int,
    *,
    words_tokens: int,
    facts_tokens: int,
    count: Count,
    first_replaced: int = 0,
    known: Known = Known(),  # noqa: B008  # frozen
    summary: str = "",
) -> Record:
    """The record of the entries that a compaction replaces: from `first_replaced` up to `first_kept`.

    `words_tokens` bounds the user's words (the request in progress is whole even so), `facts_tokens` the changed files and
    once more all the rest. Where lists are too long, what `summary` names is left out of them first.
    """
    replaced = [entry for entry in branch if first_replaced <= entry.key < first_kept]
    everything = user_words(branch, count)
    in_progress = {_request_start(branch), *(item.key for item in everything[-1:])}
    words = [item for item in everything if first_replaced <= item.key < first_kept]
    requests = [item for item in words if item.key in in_progress]
    others = [item for item in words if item.key not in in_progress]
    results = (
        (entry.key, result)
        for entry in of_kinds(reversed(replaced), Result)
        if isinstance(result := entry.payload, Result)
    )
    parts = [
        _words_section(others, requests, words_tokens, count),
        *fact_sections(results, known, facts_tokens, count, summary),
    ]
    return Record("\n\n".join(part for part in parts if part), sum(item.tokens for item in requests))


# --------------------------------------------------------------------------- the user's words


def user_words(branch: Sequence[Entry], count: Count) -> list[Words]:
    """Every message with words of the user on a branch, oldest first; output of `!` and attachments are no words."""
    dropped, shortened = _edited(branch)
    found = []
    for entry in of_kinds(branch, User):
        if not isinstance(entry.payload, User) or entry.payload.synthetic or entry.key in dropped:
            continue
        whole = shortened.get((entry.key, None))
        texts = (
            shortened.get((entry.key, place), block.text)
            for place, block in enumerate(entry.payload.blocks)
            if isinstance(block, TextBlock)
        )
        text = "\n".join(texts) if whole is None else whole
        if text.strip():
            found.append(Words(entry.key, text, _extras(entry.payload), count(text) + _WRAPPER_TOKENS))
    return found


def _edited(branch: Sequence[Entry]) -> tuple[Collection[int], dict[tuple[int, int | None], str]]:
    """What the user dropped, and what they shortened."""
    undone = undone_keys(branch)
    dropped: set[int] = set()
    shortened: dict[tuple[int, int | None], str] = {}
    for entry in of_kinds(branch, Drop, Clearing):
        if entry.key in undone:
            continue
        match entry.payload:
            case Drop(keys=keys):
                dropped.update(keys)
            case Clearing(items=items, reason="user"):
                shortened.update({(item.key, item.block): item.text for item in items})
    return dropped, shortened


def _request_start(branch: Sequence[Entry]) -> int:
    """Key of the user's message that began what is being worked on: the newest one behind a finished reply; 0: none."""
    said = list(of_kinds(branch, User, Assistant, Result))
    for place in range(len(said) - 1, -1, -1):
        user = said[place].payload
        if isinstance(user, User) and not user.synthetic and (not place or _settles(said[place - 1].payload)):
            return said[place].key
    return 0


def _settles(payload: Payload) -> bool:
    """Whether this is a finished reply."""
    if not isinstance(payload, Assistant) or payload.interrupted:
        return False
    return not any(isinstance(block, ToolCall) for block in payload.blocks)


def _words_section(others: Sequence[Words], requests: Sequence[Words], budget: int, count: Count) -> str:
    parts = ["## What the user wrote, word for word"] if others else []
    parts.extend(_shown_words(others, budget - sum(item.tokens for item in requests), count))
    if requests:
        parts.append("## The user's request in progress, word for word")
        parts.extend(_quoted(item, item.text) for item in requests)
    return "\n\n".join(parts)


def _shown_words(words: Sequence[Words], budget: int, count: Count) -> list[str]:
    """The messages within a budget: the longest cut to a common length, or else the oldest after the first left out."""
    if not words:
        return []
    kept = list(words)
    length = common_length((w.tokens for w in kept), budget)
    if length is not None and length < LEAST_WORDS_TOKENS:
        kept = _fitting(words, budget)
        length = common_length((w.tokens for w in kept), budget)
    if length is not None:
        length = max(length, LEAST_WORDS_TOKENS)
    left_out = [w.key for w in words[1 : len(words) - len(kept) + 1]]
    shown = [_quoted(w, w.text if length is None else _cut(w, length - _WRAPPER_TOKENS, count)) for w in kept]
    if left_out:
        shown.insert(1, _left_out_line(left_out))
    return shown


def _fitting(words: Sequence[Words], budget: int) -> list[Words]:
    """The first message and as many of the newest as fit with a hundred tokens each."""
    left = budget - min(words[0].tokens, LEAST_WORDS_TOKENS)
    newest: list[Words] = []
    for item in reversed(words[1:]):
        left -= min(item.tokens, LEAST_WORDS_TOKENS)
        if left < 0:
            break
        newest.append(item)
    return [words[0], *reversed(newest)]


def _cut(words: Words, length: int, count: Count) -> str:
    return cut_middle(
        words.text,
        length,
        count,
        lambda left_out: f"[About {left_out:,} tokens are left out here; entry {words.key} has them.]",
    )


def _quoted(words: Words, text: str) -> str:
    return f"Entry {words.key}{words.extras}:\n{fence(text)}"


def _left_out_line(keys: Sequence[int]) -> str:
    named = [str(key) for key in keys]
    if len(named) > _NAMED_KEYS:
        half = _NAMED_KEYS // 2
        named = [*named[:half], "…", *named[-half:]]
    return f"({len(keys)} more messages of the user are left out here; they are entries {', '.join(named)}.)"


def _extras(user: User) -> str:
    images = sum(1 for block in user.blocks if isinstance(block, ImageBlock))
    files = [block.path for block in user.blocks if isinstance(block, AttachmentBlock)]
    named = [*([f"{images} image{'s' if images > 1 else ''}"] if images else []), *files]
    return f", with {', '.join(named)}" if named else ""
