"""How paths and their failures are put into words: safe to print, to send as JSON, and to hand back as a parameter.

A name of plain printable characters stands as it is. Any other is shown as a JSON string, in which a byte that is not
UTF-8 stands as a backslash, `x` and two hex digits; `Workspace.resolve` takes that form back.
"""

import errno
import json
import os
import re
import stat
import unicodedata
from pathlib import Path

from agent.tools.base import ToolError

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4096
_PROTECTED = frozenset((".git", ".claw", "git~1", "claw~1"))
_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_BYTE = re.compile(rb"\\x([89a-f][0-9a-f])")


def printable(text: str) -> str:
    """`text` with lone surrogates (undecodable bytes among them) written out, so that it can be encoded."""
    if text.isascii():
        return text
    return _SURROGATE.sub(_write_out, text)


def _write_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def show_name(path: str | Path) -> str:
    """A path on one line, quoted as a JSON string where it holds anything that is not plainly printable."""
    text = str(path)
    if text.isprintable() and text == text.strip() and not text.startswith('"'):
        return text
    quoted = json.dumps(path_key(path), ensure_ascii=False)
    return "".join(c if c.isprintable() else _escape(c) for c in quoted)


def path_key(path: str | Path) -> str:
    """A path as text that can always be encoded: the key of read states and records."""
    return printable(str(path))


def from_escaped(text: str) -> str | None:
    """The path that `path_key` wrote as `text`, if bytes are written out in it."""
    raw = text.encode("utf-8", "surrogatepass")
    restored = _ESCAPED_BYTE.sub(lambda found: bytes([int(found[1], 16)]), raw)
    return None if restored == raw else os.fsdecode(restored)


def check_length(path: str, shown: str) -> None:
    """
    Raises:
        ToolError: no file system takes a path or name of this length.
    """
    raw = os.fsencode(path)
    if len(raw) > MAX_PATH_BYTES:
        raise ToolError(f"The path is {len(raw):,} bytes long; at most {MAX_PATH_BYTES:,} are possible.")
    longest = max(raw.split(b"/"), key=len)
    if len(longest) > MAX_NAME_BYTES:
        name = f"{shown[:60]}…"
        raise ToolError(f"{name}: a name in it is {len(longest)} bytes long; at most {MAX_NAME_BYTES} are possible.")


def is_protected(name: str) -> bool:
    """Whether some file system takes this name for `.git` or `.claw`.

    HFS+ ignores letter case and some invisible characters; NTFS (through WSL) takes short names, ignores dots and blanks at
    the end, and what follows a colon names a part of the file. As git itself looks at names (2026-11).
    """
    plain = unicodedata.normalize("NFKC", _IGNORED.sub("", name)).casefold()
    return plain.partition(":")[0].rstrip(". ") in _PROTECTED


def kind_of(mode: int) -> str:
    """What a file is, from its mode: "folder", "FIFO", … or "file"."""
    kinds = (
        (stat.S_ISDIR, "folder"),
        (stat.S_ISFIFO, "FIFO (named pipe)"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "character device"),
        (stat.S_ISBLK, "block device"),
        (stat.S_ISLNK, "symbolic link"),
    )
    return next((name for test, name in kinds if test(mode)), "file")


def os_error(error: OSError, shown: str, doing: str) -> ToolError:
    """The failure of a system call as a text for the model that says what to do. `doing` is a verb like "read"."""
    reasons = {
        errno.ENOENT: f"{shown} does not exist.",
        errno.EACCES: f"No permission to {doing} {shown}. Ask the user to change its owner or mode, or use another place.",
        errno.EROFS: f"{shown} lies on a read-only file system. Use another place.",
        errno.ENOSPC: f"No space is left on the device of {shown}; nothing was changed. Free some space, then try again.",
        errno.EDQUOT: f"The disk quota for {shown} is used up; nothing was changed. Free some space, then try again.",
        errno.EFBIG: f"{shown} would become larger than the system allows; nothing was changed. Write less.",
        errno.ELOOP: f"{shown} leads round in a loop of links, or was replaced by a link just now. Check it with `ls -l`.",
        errno.ENOTDIR: f"A part of {shown} is not a folder. Check the path.",
        errno.EISDIR: f"{shown} is a folder, not a file.",
        errno.ENAMETOOLONG: f"{shown[:80]}: the path or a name in it is too long for the file system.",
        errno.EMFILE: f"Too many files are open to {doing} {shown}. Try again.",
        errno.EIO: f"The device failed to {doing} {shown} (I/O error). Tell the user; the disk may be damaged.",
    }
    reasons[errno.EPERM] = reasons[errno.EACCES]
    code = error.errno or 0
    return ToolError(reasons.get(code) or f"Could not {doing} {shown}: {error.strerror or error}.")


def _escape(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"
