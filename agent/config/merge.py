"""Merges the values of all layers into one nested table, by each key's rule, and remembers where each came from.

Pure: candidates come in, the highest layer first, and nothing is read.
"""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from agent.config.key_paths import KeyPath, format_key
from agent.config.problems import Problem
from agent.config.schema import Config, Layer
from agent.config.validate import Candidate
from providers.models import PRESETS, ModelOverride

KNOWN: dict[str, dict[str, Any]] = {
    name: {
        "api": preset.api,
        **({"base_url": preset.base_url} if preset.base_url else {}),
        **({"key_env": preset.key_env} if preset.key_env else {}),
        "quirks": msgspec.to_builtins(preset.quirks),
    }
    for name, preset in PRESETS.items()
}
"""What the user need not write of a provider that claw knows by name."""
BUILT_IN = tuple(name for name, preset in PRESETS.items() if not preset.is_local)
"""Providers that are there without being named. A server on this machine is there once the user names it."""
_ALL_ORDER: tuple[Layer, ...] = ("managed", "user", "project", "local", "profile", "environment", "command line")
_MODEL_KEYS = (("model",), ("context", "summary_model"))


class Origin(Struct, frozen=True):
    layer: Layer
    source: str
    """The file's path, "command line", or "environment VARIABLE"."""
    line: int | None = None


class Merged(Struct):
    nested: dict[str, Any]
    origins: dict[str, tuple[Origin, ...]]
    problems: list[Problem]
    unusable: set[str]


def merge(candidates: Sequence[Candidate], reachable: Collection[str] = ()) -> Merged:
    """Merge candidates that are sorted by layer, the highest first.

    `reachable` are the providers that the user has a key for, or that need none; where there are none, a project may name a
    model of any known provider, since whoever starts has to get a key anyway.
    """
    merged = Merged({}, {}, [], set())
    providers = {*BUILT_IN, *(c.path[1] for c in candidates if c.path[0] == "providers")}
    locked = {name for c in candidates if c.path == ("managed", "locked") for name in c.value}
    by_path: dict[KeyPath, list[Candidate]] = {}
    for candidate in candidates:
        is_locked = format_key(candidate.path) in locked and candidate.source.layer != "managed"
        if not is_locked and not _foreign_model(candidate, providers, reachable, merged.problems):
            by_path.setdefault(candidate.path, []).append(candidate)
    for path, given in by_path.items():
        value, used = _combine(path, given)
        merged.origins[format_key(path)] = tuple(_origin(c) for c in used)
        if path[0] != "managed":
            _put(merged.nested, path, value)
    _complete_providers(merged)
    _check_models(merged)
    return merged


def _combine(path: KeyPath, given: list[Candidate]) -> tuple[Any, list[Candidate]]:
    """The value in force and the candidates it came from."""
    match given[0].key.merge:
        case "union":
            return list(dict.fromkeys(item for candidate in given for item in candidate.value)), given
        case "all":
            ordered = sorted(given, key=lambda c: _ALL_ORDER.index(c.source.layer))
            return [value for candidate in ordered for value in _layer_values(candidate)], ordered
        case "least":
            own = [c for c in given if c.source.layer != "managed" and not c.from_project]
            bounds = [c for c in given if c.source.layer == "managed" or c.from_project]
            considered = [*own[:1], *bounds]
            least = min(considered, key=lambda c: c.value)
            default = _default(path)
            if not own and default is not None and default < least.value and least.source.layer != "managed":
                return default, []
            return least.value, [least]
        case _:
            return given[0].value, given[:1]


def _layer_values(candidate: Candidate) -> list[dict[str, str]]:
    items = candidate.value if isinstance(candidate.value, list) else [candidate.value]
    source = candidate.source
    # What a project's profile says is the project's word, wherever in the order it stands.
    layer = "project" if candidate.from_project and source.layer == "profile" else source.layer
    return [{"layer": layer, "value": item, "base": source.base, "source": source.name} for item in items]


def _default(path: KeyPath) -> Any:
    value: Any = Config()
    for part in path:
        value = getattr(value, part)
    return value


def _foreign_model(
    candidate: Candidate, providers: set[str], reachable: Collection[str], problems: list[Problem]
) -> bool:
    """Whether a project names a model of a provider that the user does not have."""
    if candidate.path not in _MODEL_KEYS or not candidate.from_project:
        return False
    provider = str(candidate.value).partition("/")[0]
    if provider in (reachable or providers):
        return False
    missing = "key for" if provider in providers else "provider"
    message = f"ignored: you have no {missing} {provider!r} (you have {', '.join(sorted(reachable or providers))})"
    name = format_key(candidate.path)
    problems.append(Problem("notice", message, candidate.source.name, candidate.line, key=name))
    return True


def _origin(candidate: Candidate) -> Origin:
    return Origin(candidate.source.layer, candidate.source.name, candidate.line)


def _put(nested: dict[str, Any], path: KeyPath, value: Any) -> None:
    for part in path[:-1]:
        nested = nested.setdefault(part, {})
    nested[path[-1]] = value


def _complete_providers(merged: Merged) -> None:
    """Fill in the built-in providers, and leave out others that say too little."""
    tables = merged.nested.setdefault("providers", {})
    named = {*tables, *_named_locals(merged.nested)}
    # In the order of the presets: the first one with a key answers where no model is named.
    merged.nested["providers"] = tables = {
        **{name: _with_defaults(KNOWN[name], tables.get(name, {})) for name in PRESETS if name in (*BUILT_IN, *named)},
        **{name: table for name, table in tables.items() if name not in PRESETS},
    }
    for name, table in list(tables.items()):
        missing = [key for key in ("api", "base_url") if key not in table]
        if name in PRESETS or not missing:
            continue
        del tables[name]
        merged.unusable.add(name)
        path = ("providers", name)
        merged.problems.append(
            Problem(
                "error",
                f"{' and '.join(missing)} must be set, so the provider cannot be used",
                *_place(merged, path),
                key=format_key(path),
                expected='api = "anthropic", "responses" or "chat", and base_url = "https://…"',
            )
        )


def _with_defaults(defaults: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    quirks = {**defaults["quirks"], **table.get("quirks", {})}
    if table.get("base_url", defaults.get("base_url")) != defaults.get("base_url"):
        quirks = table.get("quirks", {})  # another server than the one that the quirks are known of
    return {**defaults, **table, "quirks": quirks}


def _named_locals(nested: dict[str, Any]) -> set[str]:
    """Known servers of this machine that a setting names a model of."""
    models = (nested.get("model"), nested.get("context", {}).get("summary_model"))
    return {name for model in models if (name := str(model).partition("/")[0]) in PRESETS}


def _check_models(merged: Merged) -> None:
    tables = merged.nested.get("models", {})
    for name, table in tables.items():
        try:
            msgspec.convert(table, ModelOverride)
        except msgspec.ValidationError:
            # Each value fits by itself, so only a price that lacks a part can be wrong here.
            path = ("models", name, "price")
            table.pop("price", None)
            message = "the price is not complete, so it is ignored: it needs `input` and `output`, in USD for a million tokens"
            problem = Problem("error", message, *_place(merged, path), key=format_key(path))
            merged.problems.append(problem)


def _place(merged: Merged, path: KeyPath) -> tuple[str, int | None]:
    beneath = format_key(path) + "."
    origins = [o[0] for key, o in merged.origins.items() if key.startswith(beneath) and o]
    lines = [origin.line for origin in origins if origin.line is not None]
    return (origins[0].source, min(lines, default=None)) if origins else ("configuration", None)
