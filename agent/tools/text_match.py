"""Finds the text that an edit names, and replaces it. Pure: text in, text out.

An exact match counts first (line ends apart, which nobody sees in a listing). Only where there is none, a tolerant one may
stand in: typographic quotes, white space at line ends, indentation shifted as a whole; and only if it is unique.
"""

import difflib
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from typing import TypeVar

from msgspec import Struct

from agent.encodings import has_undecodable, with_newlines
from agent.permissions.path_text import printable
from agent.tools.line_ends import PlainView, adapt

T = TypeVar("T")
MAX_TEXT_CHARS = 16 * 1024 * 1024
_MAX_LINES_NAMED = 8
_MAX_LINES_SHOWN = 12
_MAX_LINE_CHARS = 300
_SIMILAR_BUDGET_S = 0.05
_MAX_TOLERANT_CHARS = 2 * 1024 * 1024
"""In a longer text only exact matches count: comparing its lines one by one would take hundreds of megabytes."""
_PLAIN_QUOTES = str.maketrans("‘’‚‛“”„‟–—‐‑−\u00a0\u202f", "''''\"\"\"\"-----  ")


class MatchError(Exception):
    """The edit cannot be made; the message is for the model. Its text may quote the file."""


class Applied(Struct, frozen=True):
    text: str
    """The whole new text."""
    count: int
    """Places replaced."""
    line: int
    """1-based line of the first of them, in the text before."""
    note: str = ""
    """What had to be tolerated, with the lines that were replaced; "" if nothing."""


class _Found(Struct, frozen=True):
    """A tolerant match: a region of the plain text, and what old and new would be if they matched exactly there."""

    start: int
    end: int
    old: str
    new: str


def apply_edit(text: str, old: str, new: str, replace_all: bool) -> Applied:
    """
    Raises:
        MatchError: `old` is empty, the same as `new`, not there, or there more than once without `replace_all`.
    """
    if not old:
        raise MatchError("`old` is empty. Quote the text to replace; to make or fill a whole file use write.")
    view = PlainView(text)
    old = with_newlines(old, "\n")
    # In a text without any CR, a lone one in `new` is a character like others.
    new = new.replace("\r\n", "\n") if view.newline == "\n" else with_newlines(new, "\n")
    if old == new:
        raise MatchError(
            "`old` and `new` are the same (line ends do not count; edit keeps a file's own). Nothing to do."
        )
    count = view.plain.count(old)
    if count == 0:
        if replace_all:
            raise MatchError(_not_found(view.plain, old))
        return _apply_tolerant(view, old, new)
    if not replace_all:
        places = list(islice(_places(view.plain, old), _MAX_LINES_NAMED + 1))
        if len(places) > 1:
            raise MatchError(_ambiguous(view.plain, places, max(count, len(places))))
    elif _overlap(view.plain, old):
        raise MatchError("Occurrences of `old` overlap, so it is not clear what each stands for. Quote more text.")
    return _replace(view, old, new, count)


def _replace(view: PlainView, old: str, new: str, count: int) -> Applied:
    if len(view.text) + count * (len(new) - len(old)) > MAX_TEXT_CHARS:
        raise MatchError(f"The file would become longer than {MAX_TEXT_CHARS:,} characters. Use a command instead.")
    line = view.plain.count("\n", 0, view.plain.index(old)) + 1
    if view.newline is not None:
        text = view.plain.replace(old, new)
        return Applied(text if view.newline == "\n" else text.replace("\n", view.newline), count, line)
    pieces: list[str] = []
    done = 0
    for place in _places(view.plain, old):
        pieces += (view.slice(done, place), adapt(view, place, place + len(old), old, new))
        done = place + len(old)
    pieces.append(view.slice(done, len(view.plain)))
    return Applied("".join(pieces), count, line)


def _places(plain: str, old: str) -> Iterator[int]:
    """Where `old` stands, overlapping occurrences included."""
    place = plain.find(old)
    while place >= 0:
        yield place
        place = plain.find(old, place + 1)


def _overlap(plain: str, old: str) -> bool:
    if len(old) == 1:
        return False
    return any(after - before < len(old) for before, after in pairwise(_places(plain, old)))


# --------------------------------------------------------------------------- tolerant matches


def _apply_tolerant(view: PlainView, old: str, new: str) -> Applied:
    if old.strip() and len(view.plain) <= _MAX_TOLERANT_CHARS:
        for what, search in _TOLERANCES:
            found = search(view.plain, old, new)
            if len(found) > 1:
                lines = _numbers([view.plain.count("\n", 0, match.start) + 1 for match in found])
                raise MatchError(
                    f"`old` is not there exactly, and {what} apart it is there more than once ({lines}). "
                    "Quote the file exactly, with more of the lines around it."
                )
            if found:
                return _replace_tolerant(view, found[0], what)
    raise MatchError(_not_found(view.plain, old))


def _replace_tolerant(view: PlainView, match: _Found, what: str) -> Applied:
    if match.old == match.new:
        raise MatchError(f"`old` and `new` are the same, {what} apart. Nothing to do.")
    before = view.slice(0, match.start)
    after = view.slice(match.end, len(view.plain))
    text = before + adapt(view, match.start, match.end, match.old, match.new) + after
    line = view.plain.count("\n", 0, match.start) + 1
    replaced = _numbered(view.plain[match.start : match.end].rstrip("\n").split("\n"), line)
    note = f"`old` did not match exactly; taken as a match, {what} apart, were these lines:\n{replaced}"
    return Applied(text, 1, line, note)


def _match_quotes(plain: str, old: str, new: str) -> list[_Found]:
    """Character for character, typographic quotes, dashes and blanks read as plain ones."""
    wanted = old.translate(_PLAIN_QUOTES)
    return [_Found(p, p + len(old), old, new) for p in _few(_places(plain.translate(_PLAIN_QUOTES), wanted))]


def _match_line_ends(plain: str, old: str, new: str) -> list[_Found]:
    """Whole lines, white space at their ends apart."""
    return list(_few(_match_lines(plain, old, new, str.rstrip)))


def _match_indentation(plain: str, old: str, new: str) -> list[_Found]:
    """Whole lines, all shifted by the same white space."""
    found = []
    for match in _few(_match_lines(plain, old, new, str.strip)):
        theirs = plain[match.start : match.end].split("\n")
        shifted = _shift(match.old.split("\n"), match.new.split("\n"), theirs)
        if shifted is not None:
            found.append(_Found(match.start, match.end, *shifted))
    return found


_TOLERANCES: tuple[tuple[str, Callable[[str, str, str], list[_Found]]], ...] = (
    ("typographic quotes and dashes", _match_quotes),
    ("white space at line ends", _match_line_ends),
    ("indentation", _match_indentation),
)


def _few(matches: Iterable[T]) -> Iterator[T]:
    """As many as a message names; more than one is none."""
    return islice(matches, _MAX_LINES_NAMED + 1)


def _match_lines(plain: str, old: str, new: str, key: Callable[[str], str]) -> Iterator[_Found]:
    """Runs of lines that are those of `old` by their `key`, typographic quotes apart."""
    if old.endswith("\n"):
        # The last line's end belongs to the region, where the file has one.
        old, ended = old[:-1], True
    else:
        ended = False
    wanted = [key(line) for line in old.translate(_PLAIN_QUOTES).split("\n")]
    lines = plain.split("\n")
    keys = [key(line) for line in plain.translate(_PLAIN_QUOTES).split("\n")]
    starts, key_starts = _line_starts(lines), _line_starts(keys)
    # One search in the joined keys: comparing line by line would be quadratic where many lines are alike.
    for place in _places("\n" + "\n".join(keys) + "\n", "\n" + "\n".join(wanted) + "\n"):
        first = bisect_left(key_starts, place)
        last = first + len(wanted) - 1
        end = starts[last] + len(lines[last])
        if ended and last + 1 < len(lines):
            yield _Found(starts[first], end + 1, old + "\n", new)
        else:
            yield _Found(starts[first], end, old, new.removesuffix("\n") if ended else new)


def _line_starts(lines: list[str]) -> list[int]:
    starts, place = [], 0
    for line in lines:
        starts.append(place)
        place += len(line) + 1
    return starts


def _shift(old: list[str], new: list[str], theirs: list[str]) -> tuple[str, str] | None:
    """Old and new shifted as the file's lines are. None if these are not shifted alike, or new cannot be."""
    pairs = [(_indent(a), _indent(b)) for a, b in zip(old, theirs, strict=True) if a.strip()]
    ours, file = pairs[0]
    if file.endswith(ours):
        added, removed = file[: len(file) - len(ours)], ""
    elif ours.endswith(file):
        added, removed = "", ours[: len(ours) - len(file)]
    else:
        return None
    if any(added + a[len(removed) :] != b or not a.startswith(removed) for a, b in pairs):
        return None
    if any(line.strip() and not line.startswith(removed) for line in new):
        return None
    moved = (
        "\n".join(added + line[len(removed) :] if line.strip() else line for line in lines) for lines in (old, new)
    )
    return next(moved), next(moved)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


# --------------------------------------------------------------------------- messages


def _ambiguous(plain: str, places: list[int], count: int) -> str:
    lines = [plain.count("\n", 0, place) + 1 for place in places]
    return (
        f"`old` is there {count:,} times ({_numbers(lines)}). Quote more of the lines around the one you "
        "mean, or set replace_all."
    )


def _numbers(lines: list[int]) -> str:
    distinct = list(dict.fromkeys(lines[:_MAX_LINES_NAMED]))
    named = ", ".join(map(str, distinct)) + (", …" if len(lines) > _MAX_LINES_NAMED else "")
    return f"{'line' if len(distinct) == 1 else 'lines'} {named}"


def _numbered(lines: list[str], first: int) -> str:
    shown = [f"{first + offset}\t{_short(line)}" for offset, line in enumerate(lines[:_MAX_LINES_SHOWN])]
    if len(lines) > _MAX_LINES_SHOWN:
        shown.append(f"… ({len(lines) - _MAX_LINES_SHOWN} more lines)")
    return "\n".join(shown)


def _short(line: str) -> str:
    cut = line if len(line) <= _MAX_LINE_CHARS else line[:_MAX_LINE_CHARS] + "…"
    return printable(cut)


def _not_found(plain: str, old: str) -> str:
    if not plain:
        return "The file is empty, so `old` is not there. Fill it with write."
    message = "`old` is not there."
    if has_undecodable(plain):
        message += " Some bytes of the file are not valid in its encoding; text across them cannot be matched."
    near = _most_similar(_lines(plain), old)
    if near is None:
        return message + " Nothing similar is there either; read the file again."
    height = min(old.count("\n") + 1, _MAX_LINES_SHOWN)
    similar = _numbered(list(islice(_lines(plain), near, near + height)), near + 1)
    return f"{message} Quote it exactly as the file has it. The most similar lines are:\n{similar}"


def _lines(plain: str) -> Iterator[str]:
    """As `split` gives them, but one at a time."""
    start = 0
    while (end := plain.find("\n", start)) >= 0:
        yield plain[start:end]
        start = end + 1
    yield plain[start:]


def _most_similar(lines: Iterable[str], old: str) -> int | None:
    """Index of the line at which something like `old` begins. Looks for a bounded time."""
    parts = [part.strip()[:_MAX_LINE_CHARS] for part in old.split("\n", 200)[:200]]
    longest = max(range(len(parts)), key=lambda place: len(parts[place]))
    matcher = difflib.SequenceMatcher(None, "", parts[longest], autojunk=False)
    best, best_ratio = None, 0.55
    deadline = time.monotonic() + _SIMILAR_BUDGET_S
    for place, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:_MAX_LINE_CHARS])
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = place, ratio
        if time.monotonic() > deadline:
            break
    return None if best is None else max(best - longest, 0)
