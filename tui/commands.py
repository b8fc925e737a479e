"""The slash commands: one table of names, help and handlers. Completion, /help and the dispatch are read from it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace
from textual.theme import BUILTIN_THEMES

from tui import context_commands, init_command, more_commands
from tui.bridge import MODES, Target
from tui.current import CurrentSession
from tui.launch.arguments import EFFORTS
from tui.overlays import Overlays
from tui.themes import theme_names
from tui.widgets.completion import Choice


class Desk(Protocol):
    """What a command may use: the session, the other screens, and the way out."""

    @property
    def current(self) -> CurrentSession: ...
    @property
    def overlays(self) -> Overlays: ...
    def leave(self, code: int = 0) -> None: ...


class Command(Struct, frozen=True):
    name: str
    help: str
    run: Callable[[Desk, str], None]
    """Takes the text behind the name, without white space around it."""
    hint: str = ""
    """The argument as shown, in brackets where it may be left out."""
    aliases: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    """Those that completion offers."""
    forms: tuple[tuple[str, str], ...] = ()
    """Further ways to use it, as (argument, help), for the list of commands."""

    @property
    def needs_argument(self) -> bool:
        return bool(self.hint) and not self.hint.startswith("[")


def _model(desk: Desk, argument: str) -> None:
    if argument:
        desk.current.set_model(argument)
    else:
        desk.overlays.pick_model()


_MODE_WORDS = {
    "plan": "reading alone; edits and commands are refused",
    "ask": "reading; edits and commands are asked about",
    "edits": "reading and edits in the project; commands are asked about",
    "auto": "everything in the project; what is dangerous is asked about",
}


def _mode(desk: Desk, argument: str) -> None:
    """Without an argument it only tells: nothing is loosened by asking."""
    if not argument:
        now = session.mode if (session := desk.current.needed()) is not None else ""
        lines = [f"{'▸' if mode == now else ' '} {mode:<6} {_MODE_WORDS[mode]}" for mode in MODES]
        told = "\n".join(["What runs without asking:", *lines])
        return desk.current.notice("info", told, "/mode MODE changes it, Shift+Tab goes to the next.") if now else None
    for mode in MODES:
        if mode == argument.lower():
            return desk.current.set_mode(mode)
    return desk.current.notice("warning", f"There is no mode {argument}.", f"Modes: {', '.join(MODES)}.")


def _resume(desk: Desk, argument: str) -> None:
    if argument:
        desk.current.open(Target("resume", argument))
    else:
        desk.overlays.pick_session()


COMMANDS: tuple[Command, ...] = (
    Command("help", "Keys and commands", lambda d, _: d.overlays.help(), aliases=("?",)),
    Command("model", "Choose the model", _model, "[PROVIDER/MODEL]"),
    Command("effort", "How much the model thinks", more_commands.effort, "[LEVEL]", arguments=EFFORTS),
    Command("setup", "Keys, servers and the model", lambda d, _: d.overlays.set_up()),
    Command("mode", "What may run without asking", _mode, "[plan|ask|edits|auto]", arguments=MODES),
    Command(
        "compact",
        "Summarise what is old",
        context_commands.compact,
        "[focus]",
        arguments=context_commands.COMPACT_WORDS,
        forms=(
            ("preview [focus]", "see first what goes and what is lost"),
            ("edit [focus]", "the same, and edit the summary"),
            ("from [KEY]", "a message and all behind it"),
            ("up to [KEY]", "all before a message"),
        ),
    ),
    Command(
        "undo",
        "Take back the last compaction or edit",
        context_commands.undo,
        "[compact|pin|drop|edit]",
        arguments=context_commands.UNDO_WORDS,
    ),
    Command("context", "What fills the window", lambda d, _: d.overlays.context()),
    Command(
        "pin",
        "Keep the newest message word for word",
        context_commands.pin,
        "[TEXT|@PATH|KEY]",
        forms=(("@PATH:FIRST-LAST", "lines of a file, as they are now"),),
    ),
    Command(
        "instructions",
        "What is loaded, and why",
        context_commands.instructions,
        "[reload]",
        aliases=("memory",),
        arguments=("reload",),
    ),
    Command("init", "Write an AGENTS.md for this project", init_command.init, "[WISHES]"),
    Command("history", "Search what was said and done", context_commands.history, "WORDS"),
    Command("cost", "What it cost, and what caching saved", lambda d, _: d.overlays.cost()),
    Command("jobs", "What runs in the background", lambda d, _: d.overlays.jobs()),
    Command("btw", "Ask beside the work; kept nowhere", more_commands.side_question, "QUESTION"),
    Command("diff", "What was changed, and git diff", more_commands.diff),
    Command(
        "copy",
        "The last answer to the clipboard",
        more_commands.copy,
        "[N|code]",
        arguments=more_commands.COPY_WORDS,
        forms=(("N", "the answer so many from the end"), ("code [N]", "a code block of the last one")),
    ),
    Command("export", "Write the session to a file", more_commands.export, "[FILE]"),
    Command("new", "Begin a new session", lambda d, _: d.current.open(Target("new")), aliases=("clear",)),
    Command("resume", "Go back to an earlier session", _resume, "[ID]"),
    Command("fork", "Go on in a copy of this session", more_commands.fork),
    Command("title", "Name this session", lambda d, title: d.current.set_title(title), "TEXT"),
    Command("config", "The settings in force, and their source", lambda d, _: d.overlays.config()),
    Command("theme", "Choose the colours", more_commands.theme, "[NAME]", arguments=theme_names(tuple(BUILTIN_THEMES))),
    Command("quit", "Leave claw", lambda d, _: d.leave(), aliases=("exit", "q")),
)

KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", "send; while it works, steer it"),
    ("Shift+Enter, Ctrl+J, \\ Enter", "a new line"),
    ("Alt+Enter", "send when the turn has ended"),
    ("Up, Down", "earlier messages, the waiting ones first"),
    ("Ctrl+R", "search the earlier messages"),
    ("@", "name a file or folder, which goes along"),
    ("!command, !!command", "run it; !! keeps it from the model"),
    ("Tab", "complete a command or a file"),
    ("Ctrl+G", "write in your editor ($VISUAL)"),
    ("Ctrl+V", "paste an image from the clipboard"),
    ("Esc", "interrupt, or close what is open"),
    ("Shift+Tab", "next mode: plan, ask, edits, auto"),
    ("Ctrl+O", "unfold or fold all cards"),
    ("PageUp, PageDown", "scroll the transcript"),
    ("Ctrl+Home, Ctrl+End", "to its beginning or end"),
    ("Ctrl+C", "copy the selection or clear; twice leaves"),
    ("Ctrl+D", "leave, if the text is empty"),
    ("Ctrl+L", "draw the screen anew"),
    ("Ctrl+Z", "suspend; fg comes back"),
    ("F1", "this help"),
)

_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


def is_command(text: str) -> bool:
    """Whether a message is meant as a command: `/word`, and not a path such as /etc/hosts."""
    head = text.split(maxsplit=1)[0] if text.strip() else ""
    return text.startswith("/") and len(head) > 1 and "/" not in head[1:]


def run_command(desk: Desk, text: str) -> None:
    """Run `/name argument`. An unknown name is a notice that names the nearest one."""
    name, argument = (*text.strip()[1:].split(maxsplit=1), "")[:2]
    if (command := _BY_NAME.get(name.lower())) is not None:
        return command.run(desk, argument.strip())
    import difflib  # only a mistyped command needs it

    near = difflib.get_close_matches(name.lower(), _BY_NAME, 1, 0.5)
    meant = f"Did you mean /{near[0]}? " if near else ""
    remedy = f"{meant}/help lists all; a blank in front sends it as a message."
    return desk.current.notice("warning", f"There is no command /{name}.", remedy)


def complete(text: str) -> Sequence[Choice]:
    """What `text`, which begins with a slash, may become. The name itself first, then by beginning and by what they contain."""
    name, blank, argument = text[1:].partition(" ")
    if blank:
        command = _BY_NAME.get(name.lower())
        if command is not None and command.needs_argument and not argument:
            return [replace(_choice(command), insert=text)]  # says what is to be typed
        offered = command.arguments if command else ()
        return [
            Choice(f"/{name} {item}", item, "", sends=True)
            for item in offered
            if item.startswith(argument.lower()) and item != argument
        ]
    wanted = name.lower()
    first = [c for c in COMMANDS if any(n.startswith(wanted) for n in (c.name, *c.aliases))]
    later = [c for c in COMMANDS if c not in first and wanted in c.name]
    first.sort(key=lambda c: wanted not in (c.name, *c.aliases))
    return [_choice(command) for command in (*first, *later)]


def _choice(command: Command) -> Choice:
    label = f"/{command.name} {command.hint}".rstrip()
    insert = f"/{command.name} " if command.needs_argument else f"/{command.name}"
    return Choice(insert, label, command.help, sends=not command.needs_argument)
