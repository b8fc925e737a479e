"""What a session says before its first message in this process: settings in force, prefix, and what changed meanwhile.

A new session records its prefix. A resumed one sends the recorded prefix, so that the provider's cache stays good: changed
instruction files are told as reminders, and only tools that had to change, or another directory, give a new prefix.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from agent.changed_files import FileWatch
from agent.config.paths import git_branch, path_text
from agent.config.schema import Config
from agent.context.clearing import find
from agent.conversation import Conversation
from agent.events import Notice
from agent.instructions.changes import instruction_changes
from agent.instructions.item import warnings
from agent.instructions.loader import INCLUDED, recorded, render
from agent.instructions.on_disk import InstructionsOnDisk
from agent.mode_facts import mode_facts
from agent.prompt import build_sections, session_facts, turn_facts
from agent.registry import Registry
from agent.tools.base import Tool, spec
from agent.transcript import Entry, FileFact, Payload, Prefix, Reminder, Setting
from agent.window import Window


class Said(Struct, frozen=True):
    """What a command line says of the prefix. It is recorded, since it goes for the whole session. None: not said."""

    tools: tuple[str, ...] | None = None
    appended: str | None = None

    def or_before(self, branch: Sequence[Entry]) -> "Said":
        """The same, and what is not said as it was said last on this branch."""
        tools, appended = self.tools, self.appended
        settings = [entry.payload for entry in reversed(branch) if isinstance(entry.payload, Setting)]
        if tools is None:
            tools = next((setting.tools for setting in settings if setting.tools is not None), None)
        if appended is None:
            appended = next((setting.appended for setting in settings if setting.appended is not None), None)
        return Said(tools, appended)


class Beginning:
    """Knows what of a session's place goes into its prefix, and what its model is told with each message.

    What was loaded for that stands in one registry: what is the same for the whole session, and what each turn looks at
    again (instruction files, git branch).
    """

    def __init__(
        self,
        disk: InstructionsOnDisk,
        registry: Registry,
        config: Config,
        tools: Sequence[Tool],
        version: str,
        *,
        count_tokens: Callable[[str], int],
        clock: Callable[[], datetime] = datetime.now,
        said: Said = Said(),  # noqa: B008  # it is frozen
    ) -> None:
        self.place = disk.place
        self._disk = disk
        self._registry = registry
        self._format = config.instructions.format
        self._specs = tuple(spec(tool) for tool in tools)
        self._version = version
        self._count_tokens = count_tokens
        self._clock = clock
        self.said = said
        self._watch = FileWatch()
        self.warnings: tuple[str, ...] = ()
        """What the user should know about the instruction files of the last prefix that was made."""

    def prefix(self) -> Prefix:
        """The prefix of a session that starts now, with the instruction files as they are on disk."""
        self._registry.new_turn()
        items, files, place = self._disk.items(), self._disk.system_files(), self.place
        self.warnings = warnings((*files.sources, *items))
        facts = self._registry.get(
            "facts", "session", lambda: session_facts(place.cwd, place.project, appended=self.said.appended or "")
        )
        sections = build_sections(
            replace(
                facts,
                instructions=render(items, self._format),
                appended="\n\n".join(text for text in (*files.appended, facts.appended) if text),
                replacement=files.replacement,
            )
        )
        return Prefix(sections, self._specs, recorded(items, self._count_tokens), self._version)

    def reminders(
        self,
        branch: Sequence[Entry],
        window: Window,
        known_files: Mapping[str, FileFact],
        mode: str,
        opening: Sequence[Payload] = (),
    ) -> list[Payload]:
        """What the model should be told with the next message, and was not told yet: date, git branch, files that are
        different from what it saw, changed instructions, the mode.

        `opening` goes before that message; a prefix in it says already what it says.
        """
        prefix = next((payload for payload in opening if isinstance(payload, Prefix)), window.prefix)
        standing = _standing_reminders(branch, window)
        told = [reminder for _, reminder in standing]
        git = self._registry.get("git_branch", "turn", lambda: git_branch(self.place.project))
        new = turn_facts(told, self._clock(), git, self._watch.changed(known_files.values()))
        if prefix.sections:
            new += instruction_changes(prefix.instruction_files, self._disk.items(), told)
        return [*new, *mode_facts(mode, standing, branch)]

    def needs_new_prefix(self, recorded_prefix: Prefix, cwd_then: str) -> bool:
        """Whether a resumed session cannot go on with its recorded prefix."""
        files = recorded_prefix.instruction_files
        unwanted = not self._disk.enabled and any(file.reason not in ("managed", INCLUDED) for file in files)
        added = self.said.appended or ""
        lacks = bool(added) and not any(added in section.text for section in recorded_prefix.sections)
        return unwanted or lacks or recorded_prefix.tools != self._specs or cwd_then != path_text(self.place.cwd)


def opening_payloads(beginning: Beginning, talk: Conversation, mode: str) -> list[Payload]:
    """What stands before the first message of this process: the settings in force and, where needed, a prefix."""
    facts, window = talk.facts, talk.recorder.window
    cwd = path_text(beginning.place.cwd)
    setting = Setting(
        facts.provider,
        facts.id,
        facts.family,
        facts.api,
        talk.effort,
        mode,
        cwd=cwd,
        tools=beginning.said.tools,
        appended=beginning.said.appended,
    )
    branch = talk.recorder.transcript.branch
    if branch and not beginning.needs_new_prefix(window.prefix, _recorded_cwd(branch)):
        return [setting]
    prefix = talk.make_prefix()
    if branch:
        text = "The folder, the tools or the instructions are others than before, so the prompt cache is lost once."
        talk.emit(Notice("info", text))
    for text in beginning.warnings:
        talk.emit(Notice("warning", text, "`claw instructions` shows what is loaded."))
    return [setting, prefix]


def reminders(beginning: Beginning, talk: Conversation, mode: str, opening: Sequence[Payload]) -> list[Payload]:
    """What goes with the next user message, which begins a turn; `opening` goes before it."""
    surfaced = talk.instructions.new_turn()
    recorder = talk.recorder
    told = beginning.reminders(recorder.transcript.branch, recorder.window, talk.known_files, mode, opening)
    return [*told, *surfaced, *talk.jobs.take_news()]


def _recorded_cwd(branch: Sequence[Entry]) -> str:
    settings = (entry.payload for entry in reversed(branch))
    return next((s.cwd for s in settings if isinstance(s, Setting) and s.cwd is not None), "")


def _standing_reminders(branch: Sequence[Entry], window: Window) -> list[tuple[int, Reminder]]:
    """The reminders that the window still shows, with their keys, oldest first."""
    shown = sorted(key for keys in window.keys if len(keys) > 1 for key in keys[1:])
    payloads = ((key, find(branch, key).payload) for key in shown)
    return [(key, payload) for key, payload in payloads if isinstance(payload, Reminder)]
