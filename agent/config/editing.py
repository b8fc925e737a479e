"""Sets one key of a config.toml, or takes it out, in place: comments, order and everything else stay as they are.

tomlkit writes, and is imported only here. What it made is read with the standard parser before it is kept: only the one key
may differ, and no comment line may be missing. Nothing is written for a key or a value that is wrong, for one that may not
stand in that file, or into a file that cannot be read. The user's file gets mode 0600; links to it stay links.
"""

import copy
import hashlib
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent.config.files import MAX_BYTES, ConfigFile, read_config
from agent.config.key_paths import KeyPath, format_key
from agent.config.override import check_value, key_path
from agent.config.paths import ensure_private_dir
from agent.config.private_file import BusyFileError, locked, replace_private
from agent.config.reading import UnreadableError, read_small
from agent.config.validate import Source


class EditError(Exception):
    """Nothing was written. Two lines: what is wrong, what to do."""


class Edited(Struct, frozen=True):
    """What was done."""

    key: str
    """Dotted, as TOML writes it."""
    path: Path
    created: bool
    """Whether the file is new."""
    changed: bool
    """False: there was nothing to take out, or the value stood there already."""
    shown: str = ""
    """The value as TOML; empty for a key whose values are not shown, and where one was taken out."""


def set_key(file: ConfigFile, key: str, raw: str, lock: Path) -> Edited:
    """Set a key to a value, written as TOML or as plain text. `lock`: a file name; editors of configuration wait there.

    Raises:
        EditError: wrong key or value, not allowed in this file, a file that cannot be edited.
    """
    path, value, is_secret = _checked(file, key, raw)
    edited = _edit(file, path, value, lock)
    return Edited(format_key(path), file.path, *edited, shown="" if is_secret else _toml(value))


def unset_key(file: ConfigFile, key: str, lock: Path) -> Edited:
    """Take out a key, or a whole table; also one that is not known.

    Raises:
        EditError: as `set_key`.
    """
    path = key_path(key)
    if path is None:
        raise _no_key(key)
    return Edited(format_key(path), file.path, *_edit(file, path, None, lock))


def _checked(file: ConfigFile, key: str, raw: str) -> tuple[KeyPath, Any, bool]:
    """Where the value goes, the value, and whether it must not be repeated."""
    path = key_path(key)
    if path is None:
        raise _no_key(key)
    checked = check_value(path, raw, Source(file.layer, "command line"))
    candidates = [*checked.candidates, *(c for given in checked.profiles.values() for c in given)]
    for problem in checked.problems:
        remedy = "`claw config show` lists every key with its values."
        if problem.severity == "notice" and file.layer in ("project", "local"):
            remedy = "Leave out --project or --local, which sets it for you alone."
        what = f"{problem.key}: {problem.message.removeprefix('ignored: ')}"
        more = [f"expected {problem.expected}"] if problem.expected else []
        text = "; ".join([what, *more, *filter(None, [problem.remedy])])
        raise EditError(f"{text}{'' if text.endswith('?') else '.'}\n{remedy}")
    inner = path[2:] if path[0] == "profiles" else path
    if len(candidates) != 1 or len(inner) > len(candidates[0].path) or not candidates[0].path[: len(inner)] == inner:
        raise EditError(f"{format_key(path)} is a table.\nSet its keys one by one, or edit {file.path}.")
    found = candidates[0]
    if isinstance(tomllib_value(raw), dict):
        raise EditError(f"{format_key(path)} is a table.\nSet its keys one by one, or edit {file.path}.")
    hides = found.key.secret and found.key.name != "providers.*.base_url"  # an address with a key in it is refused
    return (*path[: len(path) - len(inner)], *found.path), found.value, hides


def tomllib_value(raw: str) -> Any:
    """The TOML value that the text is; the text itself where it is none."""
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except (ValueError, RecursionError):
        return raw


def _no_key(key: str) -> EditError:
    example = """context.trigger, for instance, or 'models."vendor/name".images'"""
    return EditError(f"{key!r} is no dotted key.\nWrite it as `claw config show` does: {example}.")


def _edit(file: ConfigFile, path: KeyPath, value: Any, lock: Path) -> tuple[bool, bool]:
    """Edit the file under the lock. Returns whether it is new, and whether anything changed. `value` None: take it out."""
    real = file.path.resolve()
    if file.within is not None and not real.is_relative_to(file.within):
        raise EditError(f"{file.path} leads out of {file.within}.\nPut an ordinary folder and file there.")
    try:
        ensure_private_dir(lock.parent)
        with locked(lock):
            old = _read(file)
            text = None if old is None else _normal(old)
            new = _changed(file, text or "", path, value)
            if new == (text or ""):
                return False, False
            if old is not None and b"\r\n" in old:
                new = new.replace("\n", "\r\n")
            _write(file, real, new.encode(), old)
            return old is None, True
    except BusyFileError as error:
        raise EditError(f"{error}.") from None
    except OSError as error:
        raise EditError(f"{file.path} cannot be written: {error.strerror or error}.\nCheck the folder.") from None


def _read(file: ConfigFile) -> bytes | None:
    """The file's bytes if it can be edited; None: there is no such file."""
    parsed = read_config(file)
    left = "It is left as it is: correct it first; `claw config check` shows what is wrong."
    if parsed.problem is not None:
        raise EditError(f"{parsed.problem}.\n{left}")
    try:
        small = read_small(file.path, MAX_BYTES, within=file.within)
    except UnreadableError as error:
        raise EditError(f"{file.path} cannot be read: {error}.\n{left}") from None
    return None if small is None else small.data


def _normal(data: bytes) -> str:
    return data.decode().replace("\r\n", "\n")


def _changed(file: ConfigFile, text: str, path: KeyPath, value: Any) -> str:
    """The text with the one change."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    before = tomllib.loads(text)
    if path == ("instructions", "text") and isinstance(before.get("instructions"), str):
        path = ("instructions",)  # its short form
    wanted = copy.deepcopy(before)
    if not _apply(wanted, path, value):
        return text
    by_hand = EditError(
        f"{format_key(path)} cannot be changed in {file.path} without touching the rest.\nEdit the file by hand."
    )
    try:
        document = tomlkit.parse(text)
        _apply(document, path, value, tomlkit.table)
        new = document.as_string()
        if not new.endswith("\n"):
            new += "\n"
        if _pruned(tomllib.loads(new)) != _pruned(wanted) or _comments(text) - _comments(new):
            raise by_hand
    except (TOMLKitError, ValueError, TypeError, AttributeError, RecursionError):
        raise by_hand from None
    return new


def _apply(table: Any, path: KeyPath, value: Any, new_table: Callable[[bool], Any] = lambda is_super: {}) -> bool:
    """Set or delete in nested tables. False: there was nothing to do. A super table holds nothing but tables."""
    for depth, part in enumerate(path[:-1], 1):
        if part not in table:
            if value is None:
                return False
            table[part] = new_table(depth < len(path) - 1)
        table = table[part]
        if not isinstance(table, Mapping):
            raise EditError(
                f"{format_key(path[:depth])} is a value there, not a table.\nTake it out first, with --unset."
            )
    last = path[-1]
    if value is None:
        if last not in table:
            return False
        del table[last]
        return True
    if last in table and isinstance(table[last], Mapping):
        raise EditError(f"{format_key(path)} is a table there.\nTake it out first, with --unset.")
    if last in table and type(table[last]) is type(value) and table[last] == value:
        return False
    table[last] = value
    return True


def _pruned(value: Any) -> Any:
    """Without empty tables, which mean nothing."""
    if not isinstance(value, dict):
        return value
    pruned = {key: _pruned(item) for key, item in value.items()}
    return {key: item for key, item in pruned.items() if item != {}}


def _comments(text: str) -> set[str]:
    return {line.strip() for line in text.split("\n") if line.lstrip().startswith("#")}


def _toml(value: Any) -> str:
    import tomlkit

    return str(tomlkit.item(value).as_string())


def _write(file: ConfigFile, real: Path, data: bytes, old: bytes | None) -> None:
    if file.layer == "user":
        if not real.parent.exists():
            ensure_private_dir(real.parent)
        replace_private(real, data)
        return
    from agent.atomic_write import write_file
    from agent.tools.base import ToolError

    try:
        write_file(real, str(file.path), data, None if old is None else hashlib.sha256(old).hexdigest())
    except ToolError as error:
        raise EditError(f"{error}") from None
