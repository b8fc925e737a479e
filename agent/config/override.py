"""The two layers that are no files: `KEY=VALUE` of the command line, and the environment variables for addresses."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.config.problems import Problem
from agent.config.validate import Checked, Source, check

_ADDRESSES = {"ANTHROPIC_BASE_URL": "anthropic", "OPENAI_BASE_URL": "openai"}


def parse_overrides(overrides: Sequence[str]) -> Checked:
    """The command line's values. A value is TOML where it can be, else plain text: `effort=high` needs no quotes."""
    source = Source("command line", "command line")
    result = Checked([], {}, [], [])
    for text in overrides:
        name, equals, raw = text.partition("=")
        path = key_path(name)
        if not equals or path is None:
            message = f"{text!r} is not of the form KEY=VALUE with a dotted key"
            result.problems.append(Problem("error", message, "command line"))
            continue
        if path[0] == "profiles":
            problem = Problem("error", "profiles cannot be made here", "command line", key=name, remedy="use --profile")
            result.problems.append(problem)
            continue
        _merge_into(result, check_value(path, raw, source))
    return result


def check_value(path: Sequence[str], raw: str, source: Source) -> Checked:
    """Check one value as it was written: TOML where it can be, else plain text."""
    import tomllib

    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except (ValueError, RecursionError):
        return check(_nest(path, raw), source)
    parsed = check(_nest(path, value), source)
    if parsed.faulty and not isinstance(value, str):
        # `tui.theme=2026` means text to a key that wants text.
        as_text = check(_nest(path, raw), source)
        return parsed if as_text.faulty else as_text
    return parsed


def _merge_into(result: Checked, new: Checked) -> None:
    """A later argument for a key replaces an earlier one, as on any command line; lists of rules add up."""
    paths = {c.path for c in new.candidates if c.key.merge in ("first", "least")}
    result.candidates[:] = [c for c in result.candidates if c.path not in paths] + new.candidates
    result.problems += new.problems
    result.faulty += new.faulty


def key_path(name: str) -> tuple[str, ...] | None:
    """The parts of a dotted key as TOML writes it; None: it is none."""
    import tomllib

    try:
        table: Any = tomllib.loads(f"{name.strip()} = 0") if "\n" not in name and len(name) < 1000 else {}
    except (ValueError, RecursionError):
        return None
    path: list[str] = []
    while isinstance(table, dict) and table:
        part, table = next(iter(table.items()))
        path.append(part)
    return tuple(path) or None


def _nest(path: Sequence[str], value: Any) -> dict[str, Any]:
    for part in reversed(path):
        value = {part: value}
    return dict(value)


def environment_candidates(env: Mapping[str, str]) -> Checked:
    """The addresses that variables set; an empty variable counts as unset."""
    result = Checked([], {}, [], [])
    for variable, provider in _ADDRESSES.items():
        if url := env.get(variable, "").strip():
            source = Source("environment", f"environment {variable}")
            _merge_into(result, check({"providers": {provider: {"base_url": url}}}, source))
    return result
