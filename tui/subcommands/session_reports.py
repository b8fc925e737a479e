"""`claw sessions …`: list, show, search, what they take up, and the way to what changes something (`session_changes`).
Writes plain text or JSON.

Foreign text is cleaned before it is printed; in JSON the controls that a terminal might act on are escaped.
"""

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from agent.config.paths import path_text
from agent.replay import user_text
from agent.store.index import SessionIndex
from agent.store.index_search import Found
from agent.store.removal import Removal
from agent.store.session_info import SessionInfo
from agent.transcript import Assistant, Compaction, Entry, Result, Transcript, User, to_plain
from providers.types import TextBlock, ToolCall
from tui.launch.startup import Startup
from tui.money import money
from tui.sanitize import clean, one_line, spelled_json
from tui.subcommands.reports import ago, load_session

_LISTED_LARGEST = 5
TITLE_CELLS = 60
"""Of a title in a list where other things stand beside it."""
_EXCERPT_CELLS = 400


def report_sessions(startup: Startup) -> int:
    """Run the action of the command line; the exit code.

    Raises:
        SetupError: it cannot be done; nothing was changed.
    """
    return _ACTIONS[startup.arguments.action](startup)


# --------------------------------------------------------------------------- looking


def _list(startup: Startup) -> int:
    everything, problems = _all_sessions(startup)
    _tell(problems)
    arguments, here = startup.arguments, path_text(startup.project)
    infos = [info for info in everything if arguments.all_projects or info.project == here]
    if arguments.as_json:
        print(_json(infos))
        return 0
    if not everything:
        print("There are no sessions yet.")
    elif not infos:
        print(f"There is no session of {clean(here)} yet; `claw sessions list --all` shows {len(everything):,} others.")
    for info in infos:
        cost = money(info.cost_usd) if info.cost_usd is not None else ""
        project = f"  {clean(info.project)}" if arguments.all_projects else ""
        title = one_line(info.title, 10_000) or "(no title)"
        print(f"{info.id}  {ago(info.updated_ms):>12}  {info.entries:>5} entries  {cost:>8}{project}  {title}")
    return 0


def _show(startup: Startup) -> int:
    loaded = load_session(startup, startup.arguments.session)
    branch = Transcript(loaded.entries).branch
    if startup.arguments.as_json:
        for entry in branch:
            print(_json(_plain(entry)))
        return 0
    print(f"session {loaded.meta.id} of {clean(loaded.meta.project)}")
    for entry in branch:
        if text := _entry_text(entry):
            print(f"\n[{entry.key}] {entry.kind}\n{clean(text)}")
    return 0


def _plain(entry: Entry) -> dict[str, Any]:
    """Without fingerprints of secrets, which are for the session itself."""
    payload = to_plain(entry.payload)
    for item in payload.get("redacted", ()):
        del item["fingerprint"]
    return {"key": entry.key, "parent": entry.parent, "time_ms": entry.time_ms, "payload": payload}


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


def _search(startup: Startup) -> int:
    words = " ".join(startup.arguments.words)
    with contextlib.closing(open_index(startup)) as index:
        infos, problems = index.complete()
        found = index.search(words)
    _tell(problems)
    by_id = {info.id: info for info in infos}
    if startup.arguments.as_json:
        hits = [
            msgspec.to_builtins(hit) | {"title": by_id[hit.session].title, "project": by_id[hit.session].project}
            for hit in found
            if hit.session in by_id
        ]
        print(_json(hits))
        return 0
    if not found:
        print(f"No session holds {one_line(words, TITLE_CELLS)}.")
    by_session: dict[str, list[Found]] = {}
    for hit in found:
        by_session.setdefault(hit.session, []).append(hit)
    for number, (id_, hits_of_it) in enumerate(by_session.items()):
        if (info := by_id.get(id_)) is None:
            continue
        title = one_line(info.title, TITLE_CELLS) or "(no title)"
        print(f"{chr(10) if number else ''}{id_}  {ago(info.updated_ms)}  {clean(info.project)}  {title}")
        for hit in hits_of_it:
            print(f"  [{hit.key}] {hit.kind}: {one_line(hit.excerpt, _EXCERPT_CELLS)}")
    return 0


def _du(startup: Startup) -> int:
    infos, problems = _all_sessions(startup)
    _tell(problems)
    removal = Removal(startup.paths.sessions, startup.paths.spills, open_index(startup))
    sizes = {info.id: removal.size_bytes(startup.paths.sessions / f"{info.id}.db") for info in infos}
    projects: dict[str, list[SessionInfo]] = {}
    for info in infos:
        projects.setdefault(info.project, []).append(info)
    totals = sorted(
        ((sum(sizes[info.id] for info in found), len(found), project) for project, found in projects.items()),
        reverse=True,
    )
    largest = sorted(infos, key=lambda info: sizes[info.id], reverse=True)
    index_bytes = sum(file.stat().st_size for file in startup.paths.data.glob("index.db*") if file.is_file())
    if startup.arguments.as_json:
        shown = {
            "total_bytes": sum(sizes.values()),
            "index_bytes": index_bytes,
            "projects": [{"project": p, "sessions": n, "bytes": size} for size, n, p in totals],
            "sessions": [{"id": i.id, "project": i.project, "title": i.title, "bytes": sizes[i.id]} for i in largest],
        }
        print(_json(shown))
        return 0
    rows = [*totals, (sum(sizes.values()), len(infos), f"together; their index has {size_text(index_bytes)}")]
    for size, count, what in rows:
        print(f"{size_text(size):>10}  {count:>5} {'session ' if count == 1 else 'sessions'}  {clean(what)}")
    if infos:
        print("\nWhat `claw sessions rm` would free most with:")
    for info in largest[:_LISTED_LARGEST]:
        print(f"{size_text(sizes[info.id]):>10}  {info.id}  {one_line(info.title, TITLE_CELLS)}")
    return 0


def _export(startup: Startup) -> int:
    from tui.subcommands.session_changes import export_session

    return export_session(startup)


def _remove(startup: Startup) -> int:
    from tui.subcommands.session_changes import remove_sessions

    return remove_sessions(startup)


# --------------------------------------------------------------------------- shared


def open_index(startup: Startup) -> SessionIndex:
    """Close it afterwards."""
    return SessionIndex(startup.paths.sessions, startup.paths.index_file)


def _all_sessions(startup: Startup) -> tuple[list[SessionInfo], list[str]]:
    with contextlib.closing(open_index(startup)) as index:
        return index.complete()


def _tell(problems: Sequence[str]) -> None:
    for problem in problems:
        print(f"claw: {clean(problem)}", file=sys.stderr)


def _json(value: object) -> str:
    return spelled_json(msgspec.json.encode(value).decode())


def size_text(size: int) -> str:
    """A size in a few characters, in units of 1,000."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"


_ACTIONS: dict[str, Callable[[Startup], int]] = {
    "list": _list,
    "show": _show,
    "search": _search,
    "export": _export,
    "rm": _remove,
    "du": _du,
}
