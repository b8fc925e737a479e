"""The one place where foreign text becomes something to draw. Foreign is everything that claw itself did not write.

Newlines and tabs stay. Whatever could drive a terminal, reorder or hide text (C0 and C1 controls and with them every
escape sequence, bidi controls, tag and zero-width characters, variation selectors without a base, lone surrogates)
becomes visible characters: nothing is dropped silently. Emoji sequences and the zero-width non-joiner between letters of
scripts that need it stay. The result is plain text: draw it as segments or with markup off, never as markup.
"""

import re
from collections.abc import Collection, Iterator
from functools import cache
from typing import NamedTuple
from urllib.parse import quote, urlsplit

_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935"
    "\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINING = "\u0620-\u06ff\u0750-\u077f\u0840-\u08ff\u0900-\u0dff\u0f00-\u0fff\u1000-\u109f\u1780-\u17b3\u1820-\u18aa"
_IDEOGRAPH = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIDDEN = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001345f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_VARIED = f"0-9#*{_EMOJI}\u2010-\u2027\u2030-\u205e\u2070-\u3163\u3165-\u33ff"
_KEPT = {
    # In this order: a joiner looks at the selector before it.
    "\u200d": f"\u200d(?:(?<=[{_EMOJI}]\u200d)|(?<=[{_EMOJI}]\ufe0f\u200d))(?=[{_EMOJI}])",
    "\u200c": f"\u200c(?<=[{_JOINING}]\u200c)(?=[{_JOINING}])",
    "\ufe0e": f"\ufe0e(?<=[{_VARIED}]\ufe0e)",
    "\ufe0f": f"\ufe0f(?<=[{_VARIED}]\ufe0f)",
}
"""Characters that stay where they join or vary what they stand by, and where that is; with them the selectors below, behind
an ideograph."""
_SELECTORS = frozenset(map(chr, range(0xE0100, 0xE01F0)))
_MAX_HELD_CHARS = 1_024
_MOST_REPLACED = 32


# Large sets take milliseconds to compile, so these patterns are made when they are first needed.
@cache
def _suspect() -> re.Pattern[str]:
    return re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_HIDDEN}]")


@cache
def _kept(character: str) -> re.Pattern[str]:
    # Each begins with its character, since the search for one is quick.
    return re.compile(_KEPT.get(character) or f"{character}(?<=[{_IDEOGRAPH}]{character})")


@cache
def _unsettled() -> re.Pattern[str]:
    mark = "(?:[\ud800-\udbff][\udc00-\udfff]|[0-9#*\x80-\U0010ffff])"
    return re.compile(f"(?:\r|(?:{mark}[\u200c\u200d\ufe0e\ufe0f]+)*{mark}[\u200c\u200d\ufe0e\ufe0f]*)\\Z")


def warm_up() -> None:
    """Make what the first foreign text needs; call it in a thread."""
    _suspect(), _unsettled()
    for character in _KEPT:
        _kept(character)


def clean(text: str) -> str:
    """A whole text, fit to be drawn. CRLF becomes a newline; a lone CR is shown."""
    if text.isascii():
        return _replaced(text.replace("\r\n", "\n"), set(_CONTROL.findall(text)))
    if not _suspect().search(text):
        return text
    text = text.replace("\r\n", "\n")
    if _SURROGATES.search(text):  # each pair becomes the character that it is
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    there = set(text)
    suspects = {character for character in there if _suspect().match(character)}
    # First what its neighbours decide on, while they stand as they came: what stays is out of sight meanwhile.
    stand_ins: dict[str, str] = {}
    unused = (chr(code) for code in range(0xE000, 0x110000) if chr(code) not in there)
    for character in (*(known for known in _KEPT if known in suspects), *(suspects & _SELECTORS)):
        stand_ins[character] = next(unused)
        text = _kept(character).sub(stand_ins[character], text)
    text = _replaced(text, suspects)
    for character, stand_in in stand_ins.items():
        text = text.replace(stand_in, character)
    return text


def _replaced(text: str, characters: Collection[str]) -> str:
    """The text with each of these made visible. By far quicker than a substitution at each place."""
    if len(characters) > _MOST_REPLACED:
        return text.translate({ord(character): _visible(character) for character in characters})
    for character in characters:
        text = text.replace(character, _visible(character))
    return text


class Sanitizer:
    """`clean` for a text that arrives in pieces: an emoji sequence, CRLF or surrogate pair may be split between two.

    However the text is cut, the pieces given back add up to `clean(whole)`; but what is joined over more than a thousand
    characters is not held back any longer, and may show a joiner there.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be drawn for certain so far; the last character may be held back until the next piece."""
        text = self._held + piece
        self._held = ""
        if text.isascii() and not _CONTROL.search(text) and text[-1:] not in "0123456789#*":
            return text
        return self._settled(text)

    def finish(self) -> str:
        """What was held back. The sanitizer is as new afterwards."""
        held, self._held = self._held, ""
        return clean(held)

    def _settled(self, text: str) -> str:
        if match := _unsettled().search(text, max(0, len(text) - _MAX_HELD_CHARS)):
            start = match.start()
            text, self._held = text[:start], text[start:]
        return clean(text)


def _visible(character: str) -> str:
    code = ord(character)
    if code <= 0x1F:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xE0020 <= code <= 0xE007E:
        return f"⟨tag {chr(code - 0xE0000)}⟩"
    return f"⟨U+{code:02X}⟩"


def one_line(text: str, width: int) -> str:
    """One line of at most `width` cells for a title or status: white space collapsed, the cut marked by an ellipsis."""
    start = text[: 8 * max(width, 1) + 64]
    return shorten(" ".join(clean(start).split()), width)


def shorten(line: str, width: int) -> str:
    """A clean line without newlines, cut to `width` cells; an ellipsis marks the cut. Empty for a width below 1."""
    if width < 1:
        return ""
    from rich.cells import cell_len, chop_cells  # what only writes lines needs no widths

    if cell_len(line) <= width:
        return line
    return (chop_cells(line, width - 1)[0] if width > 1 else "") + "…"


def spelled_json(text: str) -> str:
    """JSON text of the same value, in which whatever `clean` would show stands as `\\uXXXX`. Outside of strings JSON has
    none of it."""
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    return _suspect().sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def safe_url(target: str) -> str | None:
    """The address as it may be put into a link (printable ASCII), or None unless it is http or https with a host."""
    try:
        parts = urlsplit(target)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return None
    except ValueError:
        return None
    return quote(target.encode("utf-8", "replace"), safe="!#$%&'()*+,/:;=?@[]~")


# --------------------------------------------------------------------------- output of commands


class Look(NamedTuple):
    """What SGR sequences ask for. Concealment and background colours are not honoured: they can hide text."""

    color: int | str | None = None
    """0..15 of the terminal's colours, "#rrggbb", or None for the ordinary one."""
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False


_SGR = re.compile("\x1b\\[([0-9;:]*)m")
_REWRITES = re.compile("\r+|\x1b\\[2K")
_ERASE = re.compile("\x1b\\[[012]?K")
_PLAIN = Look()


def clean_output(text: str) -> str:
    """Output of a command: `clean`, except that colour sequences (SGR) stay for `parse_sgr`, and a line that was
    overwritten by carriage returns, as progress bars do, keeps its last state alone."""
    if "\r" not in text and "\x1b" not in text:  # most output has neither
        return clean(text)
    text = _ERASE.sub("", "\n".join(map(_last_state, text.split("\n"))))
    parts = _SGR.split(text)
    return "".join(f"\x1b[{part}m" if i % 2 else clean(part) for i, part in enumerate(parts))


def _last_state(line: str) -> str:
    """What stands on a line in the end, with the colour sequences behind it. No line is emptied."""
    states = _REWRITES.split(line)
    last = len(states) - 1
    while last > 0 and not _SGR.sub("", _ERASE.sub("", states[last])):
        last -= 1
    return "".join(states[last:])


def plain_output(text: str) -> str:
    """Output of a command as text alone, without colours; nothing of an escape sequence is left in it."""
    return clean(_SGR.sub("", clean_output(text)))


def parse_sgr(output: str) -> Iterator[tuple[str, Look]]:
    """Pieces of `clean_output`'s text with the look each has, in order. No piece contains an escape."""
    look = _PLAIN
    for i, part in enumerate(_SGR.split(output)):
        if i % 2:
            look = _apply(look, part)
        elif part:
            yield clean(part), look


def _apply(look: Look, codes: str) -> Look:
    numbers = [int(n[:4] or 0) for n in codes.replace(":", ";").split(";")]
    i = 0
    while i < len(numbers):
        code = numbers[i]
        if code in (38, 48, 58):
            color, i = _extended(numbers, i + 1)
            if code == 38:
                look = look._replace(color=color)
            continue
        look = _simple(look, code)
        i += 1
    return look


def _simple(look: Look, code: int) -> Look:
    if code == 0:
        return _PLAIN
    if 30 <= code <= 37 or 90 <= code <= 97:
        return look._replace(color=code - 30 if code < 90 else code - 82)
    if code == 39:
        return look._replace(color=None)
    if code == 22:
        return look._replace(bold=False, dim=False)
    field = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 9: "strike"}.get(code % 20)
    return look._replace(**{field: code <= 9}) if field and code <= 29 else look


def _extended(numbers: list[int], at: int) -> tuple[int | str | None, int]:
    """The colour whose description starts at `at` (5;N or 2;R;G;B), and where the next code stands."""
    kind, rest = (numbers[at] if at < len(numbers) else 0), numbers[at + 1 : at + 4]
    if kind == 5 and rest:
        return _indexed(min(rest[0], 255)), at + 2
    if kind == 2 and len(rest) >= 3:
        return "#{:02x}{:02x}{:02x}".format(*(min(c, 255) for c in rest[:3])), at + 4
    return None, len(numbers)


def _indexed(n: int) -> int | str:
    if n < 16:
        return n
    if n >= 232:
        return "#" + f"{8 + 10 * (n - 232):02x}" * 3
    levels = (0, 95, 135, 175, 215, 255)
    n -= 16
    return f"#{levels[n // 36]:02x}{levels[n // 6 % 6]:02x}{levels[n % 6]:02x}"
