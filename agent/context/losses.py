"""The loss report of a compaction: what stood word for word in the removed part and stands nowhere any more. Pure.

It looks for exact things (paths, commands, numbers, identifiers, error texts, sentences of the user), not for meanings.
Decisions: every sentence of the user counts as a demand, whatever its language, and those with words of command come
first; numbers need three digits or a decimal point; a name needs a mark of an identifier in it (an underscore, a dot, a
capital in the middle) or stands in backticks. No kind takes more than a third of the report while others have something.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from agent.tools.details import CommandDetails
from agent.transcript import Assistant, Compaction, Entry, Result, ShellBlock, User
from providers.types import TextBlock, ToolCall

MOST_LOSSES = 60
_MOST_OF_A_KIND = MOST_LOSSES // 3
_MOST_CHARS = 300
_MOST_SCANNED_CHARS = 200_000
"""Of one entry: its head and its tail are looked through."""

Kind = Literal["path", "command", "number", "name", "error", "demand"]

_ENDINGS = "py|js|jsx|ts|tsx|md|toml|json|ya?ml|txt|rs|go|c|h|cc|cpp|hpp|java|kt|rb|php|sh|sql|html|css|cfg|ini|lock|log|csv|xml"
_PATH = re.compile(
    rf"(?<![\w./~-])(?:~|\.{{1,2}})?/?[\w@.+-]+(?:/[\w@.+-]+)+|(?<![\w./-])[\w-]+\.(?:{_ENDINGS})(?![\w/(.])"
)
_NUMBER = re.compile(r"(?<![\w.,:/-])(?:\d[\d,_]*(?:[.:-]\d+)+|\d[\d,_]*\d{2})(?![\w/-])")
_NAME = re.compile(r"(?<![\w./-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?![\w/-])")
_IN_BACKTICKS = re.compile(r"`([^`\n]{2,80})`")
_IS_IDENTIFIER = re.compile(r"_|\.|[a-z\d][A-Z]|[A-Z]{2,}\d|[A-Z][a-z]+[A-Z]")
_PATH_ARGUMENT = re.compile(r'"\w*(?:path|file)\w*"\s*:\s*"([^"\\\s]{2,300})"')
_ERROR = re.compile(
    r"\b(?:error|exception|failed|failure|fatal|panic|denied|cannot|undefined|not found|no such)\b|"
    r"\b\w*(?:Error|Exception|Warning)\b|\bE\d{3,}\b",
    re.IGNORECASE,
)
_COMMANDING = re.compile(
    r"\b(?:must|never|always|only|don't|do not|should|shall|please|need|want|require|instead|no|not|without|keep|use|avoid|"
    r"exactly|make sure|muss|nie|niemals|immer|nicht|nur|bitte|soll|kein\w*|ohne|debe|nunca|siempre|jamais|toujours|doit)\b|"
    r"必须|不要|务必|禁止|しない|必ず",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
_SPACE = re.compile(r"\s+")
_RANKS: dict[Kind, int] = {"demand": 60, "error": 50, "command": 40, "path": 30, "number": 20, "name": 10}


class Loss(Struct, frozen=True):
    """One exact thing that would stand in the window no more."""

    kind: Kind
    text: str
    """As it stood there; at most 300 characters of it."""
    key: int
    """The newest entry that has it."""


class _Found(Struct, frozen=True):
    kind: Kind
    text: str
    weight: int


def losses(branch: Sequence[Entry], removed: Collection[int], kept_text: str) -> tuple[Loss, ...]:
    """What the entries with the keys `removed` say and `kept_text` (summary, record and all that stays) does not.

    At most 60, the most important first. Its cost grows with the removed text: call it in a thread.
    """
    kept = _Kept(kept_text)
    scores: dict[str, tuple[int, Loss]] = {}
    for entry in branch:
        if entry.key not in removed:
            continue
        for found in _found(entry):
            place = _one_space(found.text)
            score = _RANKS[found.kind] + found.weight
            known = scores.get(place)
            if known is not None:
                # What is said again matters a little more; it is newest where it was said last.
                score = max(known[0], score) + (known[0] % 10 < 9)
            kind = found.kind if known is None or score // 10 > known[0] // 10 else known[1].kind
            scores[place] = (score, Loss(kind, found.text, entry.key))
    lost = [item for item in scores.values() if not kept.has(item[1])]
    lost.sort(key=lambda item: (-item[0], -item[1].key))
    return _bounded([loss for _, loss in lost])


def _bounded(lost: Sequence[Loss]) -> tuple[Loss, ...]:
    """The first of them, so that no kind crowds out the others."""
    counts: dict[Kind, int] = {}
    first: list[int] = []
    spare: list[int] = []
    for place, loss in enumerate(lost):
        counts[loss.kind] = counts.get(loss.kind, 0) + 1
        (first if counts[loss.kind] <= _MOST_OF_A_KIND else spare).append(place)
    chosen = sorted([*first, *spare][:MOST_LOSSES])
    return tuple(lost[place] for place in chosen)


class _Kept:
    """Looks up what stays, blank space aside."""

    def __init__(self, text: str) -> None:
        self._text = _one_space(text)
        self._numbers = frozenset(_NUMBER.findall(text))
        self._names = frozenset(_NAME.findall(text))

    def has(self, loss: Loss) -> bool:
        if loss.kind == "number":
            return loss.text in self._numbers
        if loss.kind == "name" and _NAME.fullmatch(loss.text):
            return loss.text in self._names
        return _one_space(loss.text) in self._text


def _one_space(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


# --------------------------------------------------------------------------- what an entry says


def _found(entry: Entry) -> Iterator[_Found]:
    match entry.payload:
        case User(blocks=blocks, synthetic=False):
            for block in blocks:
                if isinstance(block, TextBlock):
                    yield from _demands(block.text)
                    yield from _things(block.text, 8)
                elif isinstance(block, ShellBlock):
                    yield from _command(block.command, 6)
                    yield from _errors(block.output, 4)
        case Assistant(blocks=blocks):
            for part in blocks:
                if isinstance(part, TextBlock):
                    yield from _things(part.text, 3)
                elif isinstance(part, ToolCall):
                    yield from _path_arguments(part.arguments)
        case Result():
            yield from _of_result(entry.payload)
        case Compaction(summary=summary):
            # What an earlier summary held and this one dropped.
            yield from _things(summary, 4)
            yield from _errors(summary, 2)
        case _:
            pass


def _of_result(result: Result) -> Iterator[_Found]:
    details = result.details
    text = "\n".join(block.text for block in result.blocks if isinstance(block, TextBlock))
    if isinstance(details, CommandDetails):
        failed = details.exit_code != 0
        yield from _command(details.command, 6 if failed else 2)
        yield from _errors(text, 5 if failed else 0)
        yield from _numbers(text, 0)
    elif result.is_error:
        yield from _errors(text, 3)
    for fact in result.files:
        yield _Found("path", fact.path, 5 if fact.change != "read" else 1)


def _things(text: str, weight: int) -> Iterator[_Found]:
    """Paths, numbers and names of a prose text."""
    text = _ends(text)
    for quoted in _IN_BACKTICKS.findall(text):
        kind: Kind = "path" if "/" in quoted and " " not in quoted else "command" if " " in quoted else "name"
        yield _Found(kind, quoted, weight + 2)
    for path in _PATH.findall(text):
        yield _Found("path", path.rstrip(".,"), weight)
    yield from _numbers(text, weight)
    for name in _NAME.findall(text):
        if len(name) > 3 and _IS_IDENTIFIER.search(name):
            yield _Found("name", name, weight)


def _numbers(text: str, weight: int) -> Iterator[_Found]:
    for number in _NUMBER.findall(_ends(text)):
        yield _Found("number", number, weight)


def _demands(text: str) -> Iterator[_Found]:
    for sentence in _SENTENCE_END.split(_ends(text)):
        bare = sentence.strip()
        if len(bare) > 8:
            yield _Found("demand", bare[:_MOST_CHARS], 5 if _COMMANDING.search(bare) else -45)


def _command(command: str, weight: int) -> Iterator[_Found]:
    if command.strip():
        yield _Found("command", command.strip()[:_MOST_CHARS], weight)


def _errors(text: str, weight: int) -> Iterator[_Found]:
    for line in _ends(text).splitlines():
        bare = line.strip()
        if len(bare) > 8 and _ERROR.search(bare):
            yield _Found("error", bare[:_MOST_CHARS], weight)


def _path_arguments(arguments: str) -> Iterator[_Found]:
    """Paths named by a call, whatever its parameters are called."""
    for value in _PATH_ARGUMENT.findall(arguments):
        yield _Found("path", value, 2)


def _ends(text: str) -> str:
    if len(text) <= _MOST_SCANNED_CHARS:
        return text
    half = _MOST_SCANNED_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"
