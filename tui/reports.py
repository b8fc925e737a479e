"""The subcommands that only look: sessions, config, context, instructions. They write plain text or JSON and change nothing."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from agent.config.show import show_check, show_config, show_paths
from agent.context.breakdown import breakdown
from agent.context.budget import ContextSettings, thresholds
from agent.context.meter import Meter
from agent.context.tokens import Counter
from agent.instructions.discovery import Place, discover
from agent.instructions.item import warnings
from agent.replay import user_text
from agent.store import sessions
from agent.store.schema import SchemaError
from agent.transcript import Assistant, Compaction, Entry, Result, Transcript, User
from agent.window import Window
from providers.models import model_facts
from providers.types import ProviderConfig, TextBlock, ToolCall
from tui.sanitize import clean
from tui.startup import SetupError, Startup


def report(startup: Startup) -> int:
    """Run the subcommand of the command line; the exit code.

    Raises:
        SetupError: there is no such session.
    """
    arguments = startup.arguments
    match arguments.command, arguments.action:
        case "sessions", "list":
            return _list_sessions(startup)
        case "sessions", _:
            return _show_session(startup)
        case "config", "path":
            print(show_paths(startup.loaded, startup.paths), end="")
        case "config", "check":
            print(show_check(startup.loaded), end="")
            return 2 if startup.loaded.has_errors else 0
        case "config", _:
            print(show_config(startup.loaded, startup.env, startup.paths), end="")
        case "context", _:
            _show_context(startup)
        case _:
            _show_instructions(startup)
    return 0


def ago(time_ms: int, now_ms: int | None = None) -> str:
    """How long ago in a few characters: "now", "5 min ago", "3 h ago", "2 d ago", else the date."""
    seconds = max(0, ((now_ms or int(time.time() * 1000)) - time_ms) // 1000)
    if seconds < 60:
        return "now"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    if seconds < 86_400:
        return f"{seconds // 3600} h ago"
    if seconds < 14 * 86_400:
        return f"{seconds // 86_400} d ago"
    return time.strftime("%Y-%m-%d", time.localtime(time_ms / 1000))


def _list_sessions(startup: Startup) -> int:
    infos, problems = sessions.listing(startup.paths.sessions)
    for problem in problems:
        print(f"claw: {clean(problem)}", file=sys.stderr)
    if startup.arguments.as_json:
        print(msgspec.json.encode(infos).decode())
        return 0
    if not infos:
        print("There are no sessions yet.")
    for info in infos:
        print(
            f"{info.id}  {ago(info.updated_ms):>12}  {info.entries:>5} entries  {clean(info.project)}  {clean(info.title)}"
        )
    return 0


def _show_session(startup: Startup) -> int:
    loaded = _load(startup, startup.arguments.session)
    branch = Transcript(loaded.entries).branch
    if startup.arguments.as_json:
        for entry in branch:
            print(msgspec.json.encode(entry).decode())
        return 0
    print(f"session {loaded.meta.id} of {clean(loaded.meta.project)}")
    for entry in branch:
        if text := _entry_text(entry):
            print(f"\n[{entry.key}] {entry.kind}\n{clean(text)}")
    return 0


def _entry_text(entry: Entry) -> str:
    match entry.payload:
        case User() as user:
            return user_text(user)
        case Assistant(blocks=blocks):
            parts = [b.text for b in blocks if isinstance(b, TextBlock)]
            parts += [f"→ {b.name} {b.arguments}" for b in blocks if isinstance(b, ToolCall)]
            return "\n".join(parts)
        case Result(blocks=blocks):
            return "\n".join(b.text for b in blocks if isinstance(b, TextBlock))
        case Compaction(text=text):
            return text
        case _:
            return ""


def _show_context(startup: Startup) -> None:
    loaded = _load(startup, startup.arguments.session)
    transcript = Transcript(loaded.entries)
    window = Window(transcript.branch)
    counter = Counter()
    counter.load()
    meter = Meter(counter)
    meter.rebuild(transcript.branch, window)
    config = startup.providers.get(window.provider) or ProviderConfig(window.provider, window.api)
    overrides = startup.loaded.config.models
    override = overrides.get(f"{config.name}/{window.model}") or overrides.get(window.model)
    settings = msgspec.convert(msgspec.to_builtins(startup.loaded.config.context), ContextSettings)
    try:
        limits = thresholds(model_facts(config, window.model, override), settings, startup.env)
    except ValueError as error:
        raise SetupError(str(error)) from None
    used = meter.used()
    parts = breakdown(window, meter)
    if startup.arguments.as_json:
        shown: dict[str, Any] = {
            "session_id": loaded.meta.id,
            "model": f"{window.provider}/{window.model}",
            "used_tokens": used.tokens,
            "is_estimate": used.is_estimate,
            "effective_window_tokens": limits.effective,
            "context_window_tokens": limits.context_window,
            "trigger_tokens": limits.trigger,
            "parts": msgspec.to_builtins(parts),
        }
        print(json.dumps(shown))
        return
    sign = "≈ " if used.is_estimate else ""
    print(f"{window.provider}/{window.model}: {sign}{used.tokens:,} of {limits.effective:,} tokens in use")
    for part in parts:
        name = f"{part.kind} {part.name}".strip()
        print(f"{part.tokens:>9,}  {part.tokens / max(1, used.tokens):>4.0%}  {clean(name)}")


def _show_instructions(startup: Startup) -> None:
    place = Place(startup.paths, startup.project, startup.cwd)
    items = discover(place, startup.loaded.config.instructions)
    if startup.arguments.as_json:
        counter = Counter()
        counter.load()
        files = [
            {
                "path": item.path,
                "layer": item.layer,
                "reason": item.reason,
                "tokens": counter.count(item.text),
                "sha256": item.sha256,
                "loaded": item.is_loaded,
                "skipped_because": item.skipped_because,
                "cut_chars": item.cut_chars,
                "duplicates": list(item.duplicates),
                "condition": None,
                "active": item.is_loaded,
                "includes": [],
            }
            for item in items
        ]
        print(json.dumps({"files": files, "warnings": list(warnings(items))}))
        return
    for item in items:
        state = "loaded" if item.is_loaded else f"skipped: {item.skipped_because}"
        print(f"{item.layer:8} {clean(item.path)}  ({item.reason}; {state})")
    for warning in warnings(items):
        print(f"warning: {clean(warning)}")
    if not items:
        print("No instruction files apply here.")


def _load(startup: Startup, session: str) -> sessions.LoadedSession:
    """
    Raises:
        SetupError: no such session, or it cannot be read.
    """
    path: Path | None
    try:
        if session:
            path = sessions.find(startup.paths.sessions, session)
        else:
            path = sessions.newest(startup.paths.sessions, startup.project)
        if path is None:
            raise SetupError(f"There is no session of {startup.project}.\n`claw sessions list` shows all.")
        loaded = sessions.load(path)
    except (sessions.SessionNotFoundError, SchemaError) as error:
        raise SetupError(str(error)) from None
    if loaded.damage:
        print(f"claw: {loaded.damage}", file=sys.stderr)
    return loaded
