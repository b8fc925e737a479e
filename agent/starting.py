"""What a session says before its first message in this process: settings in force, prefix, and what changed meanwhile.

A new session records its prefix. A resumed one sends the recorded prefix, so that the provider's cache stays good: changed
instruction files are told as reminders, and only tools that had to change, or another directory, give a new prefix.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from agent.changed_files import FileWatch
from agent.config.paths import git_branch, path_text
from agent.config.schema import Config
from agent.context.clearing import find
from agent.conversation import Conversation
from agent.events import Notice
from agent.instructions.discovery import Place, discover
from agent.instructions.item import InstructionItem, warnings
from agent.instructions.loader import recorded, render
from agent.prompt import build_sections, instruction_changes, session_facts, turn_facts
from agent.tools.base import Tool, spec
from agent.transcript import Entry, FileFact, Payload, Prefix, Reminder, Setting
from agent.window import Window


class Beginning:
    """Knows where the session runs and what of that goes into its prefix."""

    def __init__(
        self,
        place: Place,
        config: Config,
        tools: Sequence[Tool],
        version: str,
        *,
        use_instructions: bool = True,
        clock: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.place = place
        self._config = config
        self._specs = tuple(spec(tool) for tool in tools)
        self._version = version
        self._use_instructions = use_instructions
        self._clock = clock
        self._watch = FileWatch()
        self.warnings: tuple[str, ...] = ()
        """What the user should know about the instruction files of the last prefix that was made."""

    def instructions(
        self, effective_window_tokens: int | None, count: Callable[[str], int]
    ) -> tuple[InstructionItem, ...]:
        """The instruction files as they stand on disk now."""
        return discover(
            self.place,
            self._config.instructions,
            enabled=self._use_instructions,
            effective_window_tokens=effective_window_tokens,
            count_tokens=count,
        )

    def prefix(self, effective_window_tokens: int, count: Callable[[str], int]) -> Prefix:
        """The prefix of a session that starts now."""
        items = self.instructions(effective_window_tokens, count)
        self.warnings = warnings(items)
        text = render(items, self._config.instructions.format)
        facts = session_facts(self.place.cwd, self.place.project, instructions=text)
        return Prefix(build_sections(facts), self._specs, recorded(items, count), self._version)

    def reminders(
        self,
        branch: Sequence[Entry],
        window: Window,
        known_files: Mapping[str, FileFact],
        opening: Sequence[Payload] = (),
    ) -> list[Payload]:
        """What the model should be told with the next message, and was not told yet: date, git branch, files that are
        different from what it saw, changed instructions.

        `opening` goes before that message; a prefix in it says already what it says.
        """
        prefix = next((payload for payload in opening if isinstance(payload, Prefix)), window.prefix)
        told = _standing_reminders(branch, window)
        new: list[Reminder] = turn_facts(
            told, self._clock(), git_branch(self.place.project), self._watch.changed(known_files.values())
        )
        if prefix.sections:
            now = self.instructions(None, len)
            new += instruction_changes(prefix.instruction_files, now, told)
        return list(new)

    def needs_new_prefix(self, recorded_prefix: Prefix, cwd_then: str) -> bool:
        """Whether a resumed session cannot go on with its recorded prefix."""
        unwanted = bool(recorded_prefix.instruction_files) and not self._use_instructions
        return unwanted or recorded_prefix.tools != self._specs or cwd_then != path_text(self.place.cwd)


def opening_payloads(beginning: Beginning, talk: Conversation, mode: str) -> list[Payload]:
    """What stands before the first message of this process: the settings in force and, where needed, a prefix."""
    facts, window = talk.facts, talk.recorder.window
    cwd = path_text(beginning.place.cwd)
    setting = Setting(facts.provider, facts.id, facts.family, facts.api, talk.effort, mode, cwd=cwd)
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


def _recorded_cwd(branch: Sequence[Entry]) -> str:
    settings = (entry.payload for entry in reversed(branch))
    return next((s.cwd for s in settings if isinstance(s, Setting) and s.cwd is not None), "")


def _standing_reminders(branch: Sequence[Entry], window: Window) -> list[Reminder]:
    """The reminders that the window still shows, oldest first."""
    shown = sorted(key for keys in window.keys if len(keys) > 1 for key in keys[1:])
    payloads = (find(branch, key).payload for key in shown)
    return [payload for payload in payloads if isinstance(payload, Reminder)]
