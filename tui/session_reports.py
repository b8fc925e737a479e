"""`claw sessions …`: list, show, search, export, delete, and what they take up. Writes plain text or JSON; only `rm` and
`export` change anything, and only what they were told to.

Foreign text is cleaned before it is printed; in JSON the controls that a terminal might act on are escaped.
"""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from agent.config.paths import path_text
from agent.config.private_file import replace_private
from agent.replay import user_text
from agent.store import sessions
from agent.store.index import SessionIndex, SessionInfo
from agent.store.index_search import Found
from agent.store.lock import SessionBusyError, is_locked
from agent.store.removal import Removal
from agent.transcript import Assistant, Compaction, Entry, Result, Transcript, User
from providers.types import TextBlock, ToolCall
from tui.money import money
from tui.reports import ago, load_session
from tui.sanitize import clean, one_line
from tui.startup import SetupError, Startup

_LISTED_LARGEST = 5
_TITLE_CELLS = 60
_EXCERPT_CELLS = 400
_ACTED_ON = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


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
            print(_json(entry))
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


def _search(startup: Startup) -> int:
    words = " ".join(startup.arguments.words)
    with contextlib.closing(_index(startup)) as index:
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
        print(f"No session holds {one_line(words, _TITLE_CELLS)}.")
    by_session: dict[str, list[Found]] = {}
    for hit in found:
        by_session.setdefault(hit.session, []).append(hit)
    for number, (id_, hits_of_it) in enumerate(by_session.items()):
        if (info := by_id.get(id_)) is None:
            continue
        title = one_line(info.title, _TITLE_CELLS) or "(no title)"
        print(f"{chr(10) if number else ''}{id_}  {ago(info.updated_ms)}  {clean(info.project)}  {title}")
        for hit in hits_of_it:
            print(f"  [{hit.key}] {hit.kind}: {one_line(hit.excerpt, _EXCERPT_CELLS)}")
    return 0


def _du(startup: Startup) -> int:
    infos, problems = _all_sessions(startup)
    _tell(problems)
    removal = Removal(startup.paths.sessions, startup.paths.spills, _index(startup))
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
    for size, count, project in totals:
        print(f"{_bytes(size):>10}  {count:>5} sessions  {clean(project)}")
    print(
        f"{_bytes(sum(sizes.values())):>10}  {len(infos):>5} sessions  together; their index has {_bytes(index_bytes)}"
    )
    if infos:
        print("\nWhat `claw sessions rm` would free most with:")
    for info in largest[:_LISTED_LARGEST]:
        print(f"{_bytes(sizes[info.id]):>10}  {info.id}  {one_line(info.title, _TITLE_CELLS)}")
    return 0


# --------------------------------------------------------------------------- export


def _export(startup: Startup) -> int:
    from agent.export import export
    from agent.redaction import Redactor, secret_values

    arguments = startup.arguments
    target = _target(arguments.output, force=arguments.force)
    loaded = load_session(startup, arguments.session)
    keys = [config.key.reveal() for config in startup.providers.values() if config.key is not None]
    redactor = Redactor([*keys, *secret_values(startup.env)])
    shown = clean if arguments.export_format == "markdown" else _escaped
    pieces = (shown(piece) for piece in export(loaded, arguments.export_format, redactor))
    if target is None:
        sys.stdout.writelines(pieces)
        return 0
    try:
        _write(target, pieces, force=arguments.force)
    except OSError as error:
        raise SetupError(f"{target} cannot be written: {error.strerror or error}.\nChoose another --output.") from None
    secrets = "1 secret was" if redactor.count == 1 else f"{redactor.count} secrets were"
    print(f"{clean(str(target))}: {_bytes(target.stat().st_size)}; {secrets} taken out.")
    return 0


def _target(output: str | None, *, force: bool) -> Path | None:
    """Where the document goes; None is standard output.

    Raises:
        SetupError: something is there that must not be overwritten.
    """
    if output is None or output == "-":
        return None
    path = Path(output).expanduser()
    if path.is_symlink() or path.exists():
        if not path.is_file():
            raise SetupError(f"{clean(output)} is no regular file.\nName a file, or leave --output out to print it.")
        if not force:
            raise SetupError(f"{clean(output)} exists already.\nAdd --force to overwrite it.")
    return path.resolve()


def _write(target: Path, pieces: Iterable[str], *, force: bool) -> None:
    """Private to its owner, and there as a whole or not at all."""
    data = "".join(pieces).encode()
    if force:
        return replace_private(target, data)
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return None


# --------------------------------------------------------------------------- deleting


def _rm(startup: Startup) -> int:
    try:
        paths = list(dict.fromkeys(sessions.find(startup.paths.sessions, word) for word in startup.arguments.words))
    except sessions.SessionNotFoundError as error:
        raise SetupError(str(error)) from None
    for path in paths:
        if is_locked(path.with_suffix(".lock")):
            raise SetupError(
                f"Session {path.stem} is open in another claw; nothing was deleted.\nClose it there first."
            )
    with contextlib.closing(_index(startup)) as index:
        removal = Removal(startup.paths.sessions, startup.paths.spills, index)
        if not startup.arguments.yes and not _agreed(paths, removal, index):
            print("Nothing was deleted.")
            return 0
        try:
            removed = removal.remove(paths)
        except (SessionBusyError, OSError) as error:
            raise SetupError(
                f"Not all could be deleted: {error}\n`claw sessions list --all` shows what is left."
            ) from None
    what = "1 session" if removed.sessions == 1 else f"{removed.sessions:,} sessions"
    print(f"Deleted {what}; {_bytes(removed.freed_bytes)} are free.")
    return 0


def _agreed(paths: Sequence[Path], removal: Removal, index: SessionIndex) -> bool:
    """
    Raises:
        SetupError: there is nobody to ask.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise SetupError("Deleting sessions has to be confirmed.\nAdd --yes where nobody can be asked.")
    titles = {info.id: info.title for info in index.complete()[0]}
    for path in paths:
        title = one_line(titles.get(path.stem, ""), _TITLE_CELLS)
        print(f"{_bytes(removal.size_bytes(path)):>10}  {path.stem}  {title}")
    question = "Delete this session for good?" if len(paths) == 1 else f"Delete these {len(paths):,} sessions for good?"
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


# --------------------------------------------------------------------------- shared


def _index(startup: Startup) -> SessionIndex:
    return SessionIndex(startup.paths.sessions, startup.paths.index_file)


def _all_sessions(startup: Startup) -> tuple[list[SessionInfo], list[str]]:
    with contextlib.closing(_index(startup)) as index:
        return index.complete()


def _tell(problems: Sequence[str]) -> None:
    for problem in problems:
        print(f"claw: {clean(problem)}", file=sys.stderr)


def _json(value: object) -> str:
    return _escaped(msgspec.json.encode(value).decode())


def _escaped(text: str) -> str:
    """JSON text; what a terminal might act on can only stand inside its strings."""
    return _ACTED_ON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _bytes(size: int) -> str:
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
    "rm": _rm,
    "du": _du,
}
