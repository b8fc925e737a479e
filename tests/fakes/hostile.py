"""Sequences that would drive, disguise or crash a terminal if they reached it, for tests of everything that draws text, and
how to find them in what a program wrote to its terminal.
"""

import re
from collections.abc import Iterable

HOSTILE = (
    "\x1b]0;title\x07",
    "\x1b]0;title\x1b\\",
    "\x1b]2;title\x9c",
    "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]8;id=x;file:///etc/passwd\x07click\x1b]8;;\x07",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]52;p;ZXZpbA==\x1b\\",
    "\x1b]52;c;?\x07",
    "\x1b]9;notify\x07",
    "\x1b]9;4;3;50\x07",
    "\x1b]99;i=1;hello\x1b\\",
    "\x1b]777;notify;title;body\x07",
    "\x1b]4;1;rgb:ff/00/00\x07",
    "\x1b]10;?\x07",
    "\x1b]11;#000000\x07",
    "\x1b]133;A\x07",
    "\x1b]1337;File=inline=1:AAAA\x07",
    "\x1b]1337;RequestAttention=yes\x07",
    "\x1b]52;c;unterminated",
    "\x1b]",
    "\x1b[2J",
    "\x1b[3J",
    "\x1b[H",
    "\x1b[10;10H",
    "\x1b[1A\x1b[2K",
    "\x1b[6n",
    "\x1b[c",
    "\x1b[>0c",
    "\x1b[21t",
    "\x1b[8;50;100t",
    "\x1b[?1049l",
    "\x1b[?1000h",
    "\x1b[?2004l",
    "\x1b[?25l",
    "\x1b[!p",
    "\x1b[20h",
    "\x1b[5i",
    "\x1b[",
    "\x1bPq#0;2;0;0;0\x1b\\",
    "\x1bP$q\x22p\x1b\\",
    "\x1bP+q544e\x1b\\",
    "\x1b_Gf=24;AAAA\x1b\\",
    "\x1b^private\x1b\\",
    "\x1bXstring\x1b\\",
    "\x1bc",
    "\x1b7\x1b8",
    "\x1b#8",
    "\x1b(0",
    "\x1b=",
    "\x1bZ",
    "\x1bM",
    "\x1bk title\x1b\\",
    "\x9b2J",
    "\x9b6n",
    "\x9d0;title\x9c",
    "\x90q\x9c",
    "\x9fG\x9c",
    "\x07",
    "\x08\x08\x08",
    "\x0e\x0f",
    "\x05",
    "\x7f",
    "\x00",
    "\x0b\x0c",
    "\r\rover",
    "\u202eevil\u202c",
    "\u2066x\u2069",
    "\u200b\u200b",
    "\U000e0041\U000e0042",
    "\ud800",
    "\udfff",
    "\x1b",
    "\x1b[>1u",
    "\x1b[=1;1u",
    "\x1b[<u",
    "\x1b[?u",
    "\x1b[1;5r",
    "\x1b[5S",
    "\x1b[@\x1b[P",
    "\x1b[8m",
    "\x1b]7;file://host/etc\x07",
    "\x1b]104\x07",
    "\x1b]\x1b]0;nested\x07\x07",
    "\x1b\x1b[2J",
    "\x1b[" + "1;" * 40 + "H",
    "\x1b[\x1b\\2J",
    "\u009b?1049l",
    "\u0085\u2028\u2029",
    "\ufeff\u00ad\u034f",
    "a\ufe0f\ufe0f",
)
MARKUP = "[red]r[/red] [/closing] [@click=app.leave]q[/] [link=file:///x]l[/link]"
SENDABLE = tuple(s for s in HOSTILE if not any("\ud800" <= c <= "\udfff" for c in s))
"""Those that can be written as UTF-8."""

OURS = re.compile(
    r"\x1b\[[\d;:]*m"  # colours
    r"|\x1b\[\d+;\d+H"  # where to write
    r"|\x1b\[\?2026[hl]"  # a frame begins and ends
    r"|\x1b\[\?25[hl]"  # cursor
    r"|\x1b\]22;\w+\x07"  # the shape of the mouse pointer
    r"|\x1b\]8;id=\d+-?\d*;https?://[!-~]+\x1b\\|\x1b\]8;;\x1b\\"  # a link that claw made
    r"|\x1b\]52;c;[A-Za-z0-9+/=]*\x07"  # what was copied
    r"|[\n\r]"
)
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u200b\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
_CUT_OFF = "".join(map(chr, range(0xDC80, 0xDD00)))
"""Bytes of a character at an end that only part of was read."""


def leaks(written: bytes, sequences: Iterable[str] = SENDABLE) -> list[str]:
    """What of others a terminal would have acted on: sequences that are not claw's own, and those of its own kind that stand
    as they were sent, between an x and a y."""
    text = written.decode("utf-8", "surrogateescape").strip(_CUT_OFF)
    ours = "".join(OURS.split(text))
    found = [repr(ours[max(0, match.start() - 20) : match.end() + 20]) for match in FORBIDDEN.finditer(ours)]
    return found + [repr(sequence) for sequence in sequences if f"x{sequence}y" in text and FORBIDDEN.search(sequence)]
