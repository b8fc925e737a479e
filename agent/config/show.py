"""The texts of `claw config show`, `path` and `check`. Pure: they are made from what was loaded, and hold no secret."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agent.config.key_paths import KeyPath, format_key
from agent.config.keys import KEYS, Key
from agent.config.layers import LoadedConfig, Origin
from agent.config.paths import Paths
from agent.config.providers import key_sources
from agent.config.reading import printable

_NAMES = tuple(dict.fromkeys(key.path[0] for key in KEYS))
_HIDDEN = '"(hidden)"'
_VARIABLES = (
    *("CLAW_HOME", "CLAW_CONTEXT_WINDOW", "CLAW_DISABLE_COMPACT", "CLAW_DISABLE_AUTO_COMPACT"),
    *("CLAW_AUTOCOMPACT_PCT", "CLAW_BLOCKING_LIMIT", "CLAW_LOG"),
)


def show_config(loaded: LoadedConfig, env: Mapping[str, str], paths: Paths) -> str:
    """Every key in force as TOML: its value, where that comes from, and what the key does. Secrets are hidden."""
    values = msgspec.to_builtins(loaded.config)
    lines: list[str] = []
    tables: dict[KeyPath, list[str]] = {(): []}
    for key, path, value in _leaves(values):
        shown = _HIDDEN if key.name == "providers.*.headers.*" else _toml(_plain(value))
        origin = _origins(loaded.origins.get(format_key(path), ()))
        tables.setdefault(path[:-1], []).append(_row(format_key(path[-1:]), shown, origin, key.about))
    # A chosen name's own keys stand together, whatever the order of the key table.
    for table, rows in sorted(tables.items(), key=lambda item: _NAMES.index(item[0][0]) if item[0] else -1):
        lines += ["", f"[{format_key(table)}]", *rows] if table else rows
    lines += ["", "# keys"]
    for found in key_sources(loaded, env, paths):
        where = {
            "environment": f"from {found.variable}",
            "auth.json": f"from {paths.auth_file}",
            "none": f"none; set {found.variable or 'key_env'} or write it to {paths.auth_file}",
        }[found.kind]
        lines.append(printable(f"# {found.provider}: {where}"))
    if set_variables := [name for name in _VARIABLES if env.get(name)]:
        lines += ["", "# environment", *(printable(f"# {name} = {env[name]}") for name in set_variables)]
    if loaded.problems:
        lines += ["", "# problems", *(f"# {problem.severity}: {problem}" for problem in loaded.problems)]
    return "\n".join(lines).strip() + "\n"


def show_paths(loaded: LoadedConfig, paths: Paths) -> str:
    """Each file that claw reads or writes for itself, and whether it is there."""
    rows = [
        (source.file.layer, source.file.path, "damaged" if source.damaged else "read" if source.exists else "not there")
        for source in loaded.sources
    ]
    own = [("keys", paths.auth_file), ("state", paths.state_file), ("sessions", paths.sessions)]
    own += [("logs", paths.logs), ("history", paths.history_file), ("cache", paths.cache)]
    texts = [(str(name), str(path), state) for name, path, state in rows]
    texts += [(name, str(path), "there" if path.exists() else "not there") for name, path in own]
    return "".join(printable(f"{name:<10}{state:<11}{path}") + "\n" for name, path, state in texts)


def show_check(loaded: LoadedConfig) -> str:
    """All problems, one a line, or that there are none. The caller ends with 2 if `loaded.has_errors`."""
    if not loaded.problems:
        read = sum(source.exists for source in loaded.sources)
        return f"No problems ({read} file{'s' if read != 1 else ''} read).\n"
    return "".join(f"{problem.severity}: {problem}\n" for problem in loaded.problems)


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[Key, KeyPath, Any]]:
    for key in KEYS:
        yield from ((key, path, value) for path, value in _matches(values, key.path, ()))


def _matches(node: Any, pattern: KeyPath, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if not pattern:
        yield path, node
    elif isinstance(node, Mapping):
        names = sorted(node) if pattern[0] == "*" else [pattern[0]] if pattern[0] in node else []
        for name in names:
            yield from _matches(node[name], pattern[1:], (*path, name))


def _plain(value: Any) -> Any:
    """Values that keep their layer are shown as a list of the values."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict) and "layer" in value[0]:
        return [item["value"] for item in value]
    return value


def _row(name: str, shown: str | None, origin: str, about: str) -> str:
    if shown is None:
        return printable(f"# {name} is not set  # {about}")
    return printable(f"{name} = {shown}  # {origin}: {about}")


def _origins(origins: tuple[Origin, ...]) -> str:
    if not origins:
        return "default"
    return ", ".join(o.source if o.line is None else f"{o.layer} {o.source}:{o.line}" for o in origins)


def _toml(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return "[" + ", ".join(_toml(item) or "" for item in value) + "]"
        case dict():
            return "{" + ", ".join(f"{format_key((k,))} = {_toml(v)}" for k, v in value.items() if v is not None) + "}"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)
