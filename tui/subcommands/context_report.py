"""`claw context`: what of a recorded session the next request will send, as JSON for programs or as a grouped list.

It reads the record alone; token counts that are stored with it are taken over, so that a long session need not be counted
anew.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from agent.context.breakdown import Part, PartKind, breakdown
from agent.context.budget import ContextSettings, Thresholds, thresholds
from agent.context.meter import Meter, Used
from agent.context.tokens import TOKENIZER, Counter
from agent.store.sessions import LoadedSession
from agent.transcript import Transcript
from agent.window import Window
from providers.models import model_facts
from providers.types import ProviderConfig
from tui.launch.startup import SetupError, Startup
from tui.sanitize import clean, spelled_json

_NAME_CHARS = 100


def context_report(startup: Startup, loaded: LoadedSession, ago: Callable[[int], str]) -> str:
    """The whole report without a line end; `ago` says how long ago a wall-clock time is.

    Raises:
        SetupError: a CLAW_… variable is wrong.
    """
    transcript = Transcript(loaded.entries)
    window = Window(transcript.branch)
    counter = Counter()
    counter.load()
    meter = Meter(counter)
    meter.load_counts(loaded.counts.get(TOKENIZER, {}))
    meter.rebuild(transcript.branch, window)
    limits = _limits(startup, window)
    used, parts = meter.used(), breakdown(window, meter)
    if startup.arguments.as_json:
        return spelled_json(json.dumps(_plain(loaded, window, used, limits, parts)))
    times = {entry.key: entry.time_ms for entry in transcript.branch}
    return "\n".join((_headline(window, used, limits), *_rows(parts, used.tokens, times, ago)))


def _limits(startup: Startup, window: Window) -> Thresholds:
    config = startup.providers.get(window.provider) or ProviderConfig(window.provider, window.api)
    overrides = startup.loaded.config.models
    override = overrides.get(f"{config.name}/{window.model}") or overrides.get(window.model)
    settings = msgspec.convert(msgspec.to_builtins(startup.loaded.config.context), ContextSettings)
    try:
        return thresholds(model_facts(config, window.model, override), settings, startup.env)
    except ValueError as error:
        raise SetupError(str(error)) from None


def _plain(
    loaded: LoadedSession, window: Window, used: Used, limits: Thresholds, parts: Sequence[Part]
) -> dict[str, Any]:
    return {
        "session_id": loaded.meta.id,
        "model": f"{window.provider}/{window.model}",
        "used_tokens": used.tokens,
        "is_estimate": used.is_estimate,
        "effective_window_tokens": limits.effective,
        "context_window_tokens": limits.context_window,
        "trigger_tokens": limits.trigger,
        "parts": msgspec.to_builtins(parts),
    }


def _headline(window: Window, used: Used, limits: Thresholds) -> str:
    sign = "≈ " if used.is_estimate else ""
    full = used.tokens / limits.effective
    begins = f"compaction begins at {limits.trigger:,}" if limits.auto_compact else "nothing is compacted automatically"
    return (
        f"{clean(window.provider)}/{clean(window.model)}: {sign}{used.tokens:,} of {limits.effective:,} tokens in use "
        f"({full:.0%}); {begins}"
    )


def _rows(parts: Sequence[Part], total: int, times: Mapping[int, int], ago: Callable[[int], str]) -> list[str]:
    """A line for each kind, and under it one for each name where there are names; the newest entry gives the age."""
    kinds: dict[PartKind, list[Part]] = {}
    for part in parts:
        kinds.setdefault(part.kind, []).append(part)

    def row(tokens: int, entries: Sequence[int], name: str) -> str:
        known = [times[key] for key in entries if key in times]
        age = ago(max(known)) if known else ""
        return f"{tokens:>9,}  {tokens / max(1, total):>4.0%}  {age:>12}  {name}"

    rows = []
    for kind, group in kinds.items():
        every = [key for part in group for key in part.entries]
        rows.append(row(sum(part.tokens for part in group), every, kind.replace("_", " ")))
        if any(part.name for part in group):
            by_size = sorted(group, key=lambda part: -part.tokens)
            rows += [row(part.tokens, part.entries, f"  {_name(part)}") for part in by_size]
    return rows


def _name(part: Part) -> str:
    name = " ".join(clean(part.name).split()) or "(others)"
    name = name if len(name) <= _NAME_CHARS else name[: _NAME_CHARS - 1] + "…"
    return f"{name} ({len(part.entries)} entries)" if len(part.entries) > 1 else name
