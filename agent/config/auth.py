"""Keys: those that are kept in auth.json or in the system's keyring, and what no key looks like.

auth.json is `{"anthropic": {"key": "…"}}`; `{"anthropic": {"keyring": true}}` says that the key lies in the keyring, so that
nobody who keeps none there ever waits for it. No key ever stands in a message.
"""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agent.config.key_paths import format_key
from agent.config.problems import Problem
from agent.config.reading import SmallFile, UnreadableError, printable, read_small
from agent.config.schema import Config
from providers.types import Secret

_MAX_BYTES = 1 << 20
_SHAPE = '{"anthropic": {"key": "…"}}'
KEYRING_SERVICE = "claw"


class AuthError(Exception):
    """A key cannot be kept or removed; nothing was changed. Two lines: what is wrong, what to do."""


def read_auth(path: Path) -> tuple[dict[str, Secret], tuple[Problem, ...]]:
    """Keys by provider name, and what is wrong with the file. A missing file is empty."""
    source = str(path)
    try:
        file = _read(path, _MAX_BYTES)
    except UnreadableError as error:
        return {}, (Problem("error", f"cannot be read: {error}", source, expected="a file with mode 0600"),)
    if file is None:
        return {}, ()
    problems: list[Problem] = []
    if stat.S_IMODE(file.mode) & 0o077:
        problems.append(_made_private(path, file))
    try:
        content = _decoded(file.data)
    except ValueError as error:
        return {}, (*problems, Problem("error", str(error), source, expected=_SHAPE))
    keys: dict[str, Secret] = {}
    for name, item in content.items():
        try:
            key = _key_of(name, item)
        except ValueError as error:
            problems.append(Problem("error", str(error), source, key=printable(name)[:80], expected=_SHAPE))
            continue
        except AuthError as error:
            what, _, remedy = str(error).partition("\n")
            problems.append(Problem("warning", what, source, key=printable(name)[:80], remedy=remedy))
            continue
        if fault := key_fault(key):
            problems.append(Problem("error", fault, source, key=printable(name)[:80]))
        else:
            keys[name] = Secret(key.strip())
    return keys, tuple(problems)


def stored_names(path: Path) -> tuple[str, ...]:
    """The providers that the file has an entry for, without asking the keyring; empty where the file cannot be read."""
    return tuple(_content(path))


def plain_keys(path: Path) -> tuple[str, ...]:
    """All keys that stand in the file itself, whether a provider of that name is configured or not."""
    items = [item for item in _content(path).values() if isinstance(item, dict)]
    return tuple(key.strip() for item in items if isinstance(key := item.get("key"), str))


def _content(path: Path) -> dict[str, Any]:
    """Empty where the file cannot be read."""
    try:
        file = _read(path, _MAX_BYTES)
        return _decoded(file.data) if file is not None else {}
    except (UnreadableError, ValueError):
        return {}


def _read(path: Path, max_bytes: int) -> SmallFile | None:
    """
    Raises:
        UnreadableError: it is no regular file, may not be read, or is a link: whoever can set one chooses whose keys count.
    """
    if path.is_symlink():
        raise UnreadableError("it is a link, and keys are never read through one; put a file in its place")
    return read_small(path, max_bytes)


def _made_private(path: Path, file: SmallFile) -> Problem:
    """Take the file from other users, where it is one's own; what is told of it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError:
        message = "other users may read or change your keys"
        return Problem("warning", message, str(path), remedy=f"run: chmod 600 {path}")
    message = f"other users could read or change your keys (mode {stat.S_IMODE(file.mode):04o}); now it is private"
    return Problem("warning", message, str(path), remedy="replace the keys if others use this machine")


def save_key(path: Path, provider: str, key: Secret, *, in_keyring: bool = False) -> None:
    """Keep a provider's key in auth.json (0600, replaced as a whole), or in the keyring. Other entries stay as they are.

    Raises:
        AuthError: it is no key, or the file is a link, damaged, locked or cannot be written; nothing was changed.
    """
    text = key.reveal().strip()
    if fault := key_fault(text):
        raise AuthError(f"Not kept: {fault}.\nCopy it once more, from its first to its last character.")
    if in_keyring:
        _in_keyring("keep", lambda keyring: keyring.set_password(KEYRING_SERVICE, provider, text))
    entry: dict[str, object] = {"keyring": True} if in_keyring else {"key": text}

    def change(content: dict[str, Any]) -> bool:
        content[provider] = entry
        return True

    _edit(path, change)


def remove_key(path: Path, provider: str) -> bool:
    """Forget a provider's key, wherever it lies. False: there was none.

    Raises:
        AuthError: as `save_key`.
    """

    def change(content: dict[str, Any]) -> bool:
        entry = content.pop(provider, None)
        if isinstance(entry, dict) and entry.get("keyring") is True:
            _in_keyring("remove", lambda keyring: _delete(keyring, provider))
        return entry is not None

    return _edit(path, change)


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


def _decoded(data: bytes) -> dict[str, Any]:
    """
    Raises:
        ValueError: no JSON object; the text says which.
    """
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("is not valid JSON") from None
    if not isinstance(content, dict):
        raise ValueError("is no JSON object")
    return content


def _key_of(name: str, item: object) -> str:
    """
    Raises:
        ValueError: the entry holds no key.
        AuthError: the keyring does not give it.
    """
    if not isinstance(item, dict):
        raise ValueError("no key")
    if item.get("keyring") is True:
        found = _in_keyring("give", lambda keyring: keyring.get_password(KEYRING_SERVICE, name))
        if not isinstance(found, str):
            raise AuthError(f"the keyring has no key for it\nrun: claw login {printable(name)}")
        return found
    key = item.get("key")
    if not isinstance(key, str):
        raise ValueError("no key")
    return key


def has_keyring() -> bool:
    """Whether the system has a keyring that can keep something. The first call may take a moment."""
    try:
        import keyring

        return bool(keyring.get_keyring().priority > 0)
    except Exception:  # not installed, or a backend that does not work here
        return False


def _in_keyring(verb: str, ask: Callable[[Any], object]) -> object:
    """
    Raises:
        AuthError: there is no keyring, or it refuses.
    """
    try:
        import keyring
    except ImportError:
        remedy = "Install the package `keyring` beside claw, or keep the key in auth.json with `claw login`."
        raise AuthError(
            f"The keyring cannot {verb} the key: the package `keyring` is not installed.\n{remedy}"
        ) from None
    try:
        return ask(keyring)
    except (
        Exception
    ) as error:  # each backend has errors of its own; their texts may hold anything, so only the name is shown
        remedy = "Unlock the keyring, or keep the key in auth.json with `claw login`."
        raise AuthError(f"The keyring cannot {verb} the key ({type(error).__name__}).\n{remedy}") from None


def _delete(keyring: Any, provider: str) -> None:
    """Deleting what is not there is an error to a keyring."""
    if keyring.get_password(KEYRING_SERVICE, provider) is not None:
        keyring.delete_password(KEYRING_SERVICE, provider)


def _edit(path: Path, change: Callable[[dict[str, Any]], bool]) -> bool:
    """Replace the file where `change` says that it changed the content.

    Raises:
        AuthError: see `save_key`.
    """
    from agent.config.paths import ensure_private_dir
    from agent.config.private_file import BusyFileError, locked, replace_private

    try:
        ensure_private_dir(path.parent)
        with locked(path):
            if path.is_symlink():
                raise AuthError(f"{path} is a link, and keys are never written through one.\nPut a file in its place.")
            file = _read(path, _MAX_BYTES + 1)
            if file is not None and file.size_bytes > _MAX_BYTES:
                raise ValueError("is larger than 1 MiB")
            content = _decoded(file.data) if file is not None and file.data.strip() else {}
            for left in path.parent.glob(
                f".{path.name}.*"
            ):  # of one that was killed while it wrote; nobody else does now
                left.unlink(missing_ok=True)
            if changed := change(content):
                replace_private(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
            return changed
    except (UnreadableError, ValueError) as error:
        remedy = f"It is left as it is: correct it ({_SHAPE}) or move it away."
        raise AuthError(f"{path} cannot be used: {error}.\n{remedy}") from None
    except BusyFileError as error:
        raise AuthError(f"{error}.") from None
    except OSError as error:
        raise AuthError(
            f"{path} cannot be written: {error.strerror or error}.\nCheck the disk and the folder."
        ) from None
