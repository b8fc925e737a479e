"""Keys: those that are kept in auth.json, `{"anthropic": {"key": "…"}}`, and what no key looks like.

No key ever stands in a message.
"""

import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent.config.key_paths import format_key
from agent.config.problems import Problem
from agent.config.reading import UnreadableError, printable, read_small
from agent.config.schema import Config
from providers.types import Secret

_MAX_BYTES = 1 << 20
_SHAPE = '{"anthropic": {"key": "…"}}'


def read_auth(path: Path) -> tuple[dict[str, Secret], tuple[Problem, ...]]:
    """Keys by provider name, and what is wrong with the file. A missing file is empty."""
    source = str(path)
    try:
        file = read_small(path, _MAX_BYTES)
    except UnreadableError as error:
        return {}, (Problem("error", f"cannot be read: {error}", source, expected="a file with mode 0600"),)
    if file is None:
        return {}, ()
    problems: list[Problem] = []
    if stat.S_IMODE(file.mode) & 0o077:
        message = "other users may read or change your keys"
        problems.append(Problem("warning", message, source, remedy=f"run: chmod 600 {path}"))
    try:
        content = msgspec.json.decode(file.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}, (*problems, Problem("error", "is not valid JSON", source, expected=_SHAPE))
    if not isinstance(content, dict):
        return {}, (*problems, Problem("error", "is no JSON object", source, expected=_SHAPE))
    keys: dict[str, Secret] = {}
    for name, item in content.items():
        key = item.get("key") if isinstance(item, dict) else None
        if not isinstance(key, str):
            problems.append(Problem("error", "no key", source, key=printable(name)[:80], expected=_SHAPE))
        elif fault := key_fault(key):
            problems.append(Problem("error", fault, source, key=printable(name)[:80]))
        else:
            keys[name] = Secret(key.strip())
    return keys, tuple(problems)


def key_fault(key: str) -> str:
    """Why `key` cannot be sent in an HTTP header, without repeating it; empty if it can. White space around it is fine."""
    text = key.strip()
    if not text:
        return "the key is empty"
    if not text.isascii() or not text.isprintable() or " " in text:
        return "the key contains a space, a line break or a character that no key has: it was not copied whole"
    return ""


def key_problems(config: Config, env: Mapping[str, str]) -> tuple[Problem, ...]:
    """Variables that hold something that cannot be a key."""
    problems: list[Problem] = []
    for name, settings in config.providers.items():
        given = env.get(settings.key_env or "", "")
        if given.strip() and (fault := key_fault(given)):
            key = format_key(("providers", name))
            problems.append(Problem("error", fault, f"environment {settings.key_env}", key=key))
    return tuple(problems)
