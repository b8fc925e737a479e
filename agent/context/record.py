"""What the program itself writes down of the part that a compaction replaces: the user's words, files, commands, the last error.

It is made anew each time from all entries before the cut, those before earlier compactions included, so that nothing is
told twice or fades. Same entries and same counts give the same text. Decisions: the request in progress is the message that
began it and the newest one that steered it; wrappers count into the budget of the words; a message that the user dropped
is not recorded; an error is left out if the same command succeeded later.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from agent.context.fence import disarm, fence
from agent.context.shorten import Count, common_length, cut_middle
from agent.tools.details import CommandDetails
from agent.transcript import Assistant, AttachmentBlock, Drop, Entry, FileFact, Result, User, undone_keys
from providers.types import ImageBlock, TextBlock, ToolCall

LEAST_WORDS_TOKENS = 100
_WRAPPER_TOKENS = 14
_ERROR_TOKENS = 300
_COMMAND_CHARS = 200
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
    has_request: bool
    """Whether it holds anything of the request that is being worked on."""


def make_record(
    branch: Sequence[Entry], first_kept: int, *, words_tokens: int, facts_tokens: int, count: Count
) -> Record:
    """The record of the entries before `first_kept`.

    `words_tokens` bounds the user's words (the request in progress is whole even so), `facts_tokens` all the rest.
    """
    replaced = [entry for entry in branch if entry.key < first_kept]
    everything = user_words(branch, count)
    in_progress = {_request_start(branch), *(item.key for item in everything[-1:])}
    words = [item for item in everything if item.key < first_kept]
    requests = [item for item in words if item.key in in_progress]
    others = [item for item in words if item.key not in in_progress]
    parts = [_words_section(others, requests, words_tokens, count)]
    results = [(entry.key, entry.payload) for entry in replaced if isinstance(entry.payload, Result)]
    left = facts_tokens
    for section in (
        _changed_section(results, left, count),
        _error_section(results, min(_ERROR_TOKENS, facts_tokens // 3), count),
    ):
        parts.append(section)
        left -= count(section)
    commands = _commands_section(results, left // 2, count)
    parts.append(commands)
    parts.append(_read_section(results, left - count(commands), count))
    return Record("\n\n".join(part for part in parts if part), bool(requests))


# --------------------------------------------------------------------------- the user's words


def user_words(branch: Sequence[Entry], count: Count) -> list[Words]:
    """Every message with words of the user on a branch, oldest first; output of `!` and attachments are no words."""
    undone = undone_keys(branch)
    dropped = {key for e in branch if isinstance(e.payload, Drop) and e.key not in undone for key in e.payload.keys}
    found = []
    for entry in branch:
        if not isinstance(entry.payload, User) or entry.payload.synthetic or entry.key in dropped:
            continue
        text = "\n".join(block.text for block in entry.payload.blocks if isinstance(block, TextBlock))
        if text.strip():
            found.append(Words(entry.key, text, _extras(entry.payload), count(text) + _WRAPPER_TOKENS))
    return found


def _request_start(branch: Sequence[Entry]) -> int:
    """Key of the user's message that began what is being worked on: the newest one behind a finished reply; 0: none."""
    start, settled = 0, True
    for entry in branch:
        match entry.payload:
            case User(synthetic=synthetic):
                start = entry.key if settled and not synthetic else start
                settled = False
            case Assistant(blocks=blocks, interrupted=interrupted):
                settled = not interrupted and not any(isinstance(block, ToolCall) for block in blocks)
            case Result():
                settled = False
    return start


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


# --------------------------------------------------------------------------- files, commands, the last error

_Results = Sequence[tuple[int, Result]]


def _changed_section(results: _Results, budget: int, count: Count) -> str:
    changed: dict[str, str] = {}
    for _, result in results:
        for fact in result.files:
            if fact.change != "read":
                changed[fact.path] = fact.change if changed.pop(fact.path, "") != "written" else "written"
    lines = [f"- {path} ({how})" for path, how in reversed(changed.items())]
    return _listed("## Files changed, newest first", lines, budget, count)


def _read_section(results: _Results, budget: int, count: Count) -> str:
    newest: dict[str, FileFact] = {}
    changed: set[str] = set()
    for _, result in results:
        for fact in result.files:
            if fact.change == "read":
                newest.pop(fact.path, None)
                newest[fact.path] = fact
            else:
                changed.add(fact.path)
    lines = [f"- {path} ({_seen(fact)})" for path, fact in reversed(newest.items()) if path not in changed]
    return _listed("## Files read only, newest first", lines, budget, count)


def _commands_section(results: _Results, budget: int, count: Count) -> str:
    lines = [
        f"- entry {key}, {_outcome(result.details)}: {_one_line(result.details.command)}"
        for key, result in reversed(results)
        if isinstance(result.details, CommandDetails)
    ]
    return _listed("## Commands run, newest first", lines, budget, count)


def _error_section(results: _Results, budget: int, count: Count) -> str:
    succeeded: set[str] = set()
    for key, result in reversed(results):
        details = result.details
        is_command = isinstance(details, CommandDetails)
        if isinstance(details, CommandDetails) and details.exit_code == 0:
            succeeded.add(details.command)
            continue
        if not (result.is_error or is_command) or (
            isinstance(details, CommandDetails) and details.command in succeeded
        ):
            continue
        text = "\n".join(block.text for block in result.blocks if isinstance(block, TextBlock)).strip()
        short = cut_middle(disarm(text), budget, count, lambda left_out: f"[about {left_out:,} tokens left out]", 0.3)
        return f"## The last error (entry {key}, tool {result.tool})\n\n{fence(short)}"
    return ""


def _listed(title: str, lines: Iterable[str], budget: int, count: Count) -> str:
    """A titled list with as many lines as the budget holds, and how many are missing."""
    every = list(lines)
    if not every:
        return ""
    left = budget - count(title) - 12
    shown: list[str] = []
    for line in every:
        left -= count(line) + 1
        if left < 0:
            break
        shown.append(line)
    if missing := len(every) - len(shown):
        shown.append(f"- and {missing:,} older ones")
    return f"{title}\n\n" + "\n".join(shown)


def _seen(fact: FileFact) -> str:
    if fact.whole or not fact.ranges:
        return "whole" if fact.whole else "in part"
    shown = ", ".join(f"{first}-{last}" for first, last in fact.ranges[:3])
    return f"lines {shown}" + (", …" if len(fact.ranges) > 3 else "")


def _outcome(details: CommandDetails) -> str:
    return f"exit {details.exit_code}" if details.exit_code is not None else details.status


def _one_line(command: str) -> str:
    first, _, rest = command.strip().partition("\n")
    cut = first[:_COMMAND_CHARS]
    return cut + (" …" if rest or len(first) > _COMMAND_CHARS else "")
