"""Dotted keys of the configuration as values, and how TOML writes them."""

import re

KeyPath = tuple[str, ...]
"""The parts of a dotted key. The place of an item in an array is a part too: its 0-based index in digits."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def format_key(path: KeyPath) -> str:
    """The path as TOML writes it: `models."a.b".price`."""
    return ".".join(part if _BARE.fullmatch(part) else _quoted(part) for part in path)


def _quoted(part: str) -> str:
    escaped = part.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in escaped) + '"'
