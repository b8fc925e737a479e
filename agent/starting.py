"""What a session says before its first message in this process: settings in force, prefix, and what changed meanwhile.

A new session records its prefix. A resumed one sends the recorded prefix, so that the provider's cache stays good: changed
instruction files are told as reminders, and only tools that had to change, or another directory, give a new prefix.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from agent.config.paths import git_branch
from agent.config.schema import Config
from agent.conversation import Conversation
from agent.instructions.discovery import Place, discover
from agent.instructions.item import InstructionItem, warnings
from agent.instructions.loader import recorded, render
from agent.prompt import build_sections, instruction_changes, session_facts, turn_facts
from agent.tools.base import Tool, spec
from agent.transcript import Entry, Payload, Prefix, Reminder, Setting
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
        text = render(items, self._config.instructions.format)
        facts = session_facts(self.place.cwd, self.place.project, instructions=text)
        return Prefix(build_sections(facts), self._specs, recorded(items, count), self._version)

    def warnings(self, effective_window_tokens: int, count: Callable[[str], int]) -> tuple[str, ...]:
        return warnings(self.instructions(effective_window_tokens, count))

    def reminders(self, branch: Sequence[Entry], window: Window) -> list[Payload]:
        """What the model should be told with the next message, and was not told yet: date, git branch, changed instructions."""
        told = _standing_reminders(branch, window)
        new: list[Reminder] = turn_facts(told, self._clock(), git_branch(self.place.project))
        if window.prefix.sections:
            now = self.instructions(None, len)
            new += instruction_changes(window.prefix.instruction_files, now, told)
        return list(new)

    def needs_new_prefix(self, recorded_prefix: Prefix, cwd_then: str) -> bool:
        """Whether a resumed session cannot go on with its recorded prefix."""
        unwanted = bool(recorded_prefix.instruction_files) and not self._use_instructions
        return unwanted or recorded_prefix.tools != self._specs or cwd_then != str(self.place.cwd)


def opening_payloads(beginning: Beginning, talk: Conversation, mode: str) -> list[Payload]:
    """What stands before the first message of this process: the settings in force and, where needed, a prefix."""
    facts, window = talk.facts, talk.recorder.window
    cwd = str(beginning.place.cwd)
    setting = Setting(facts.provider, facts.id, facts.family, facts.api, talk.effort, mode, cwd=cwd)
    if not len(talk.recorder.transcript):
        return [setting, talk.make_prefix()]
    if beginning.needs_new_prefix(window.prefix, _recorded_cwd(talk.recorder.transcript.branch)):
        return [setting, talk.make_prefix()]
    return [setting]


def _recorded_cwd(branch: Sequence[Entry]) -> str:
    settings = (entry.payload for entry in reversed(branch))
    return next((s.cwd for s in settings if isinstance(s, Setting) and s.cwd is not None), "")


def _standing_reminders(branch: Sequence[Entry], window: Window) -> list[Reminder]:
    """The reminders that the window still shows, oldest first."""
    shown = {key for keys in window.keys for key in keys}
    return [e.payload for e in branch if isinstance(e.payload, Reminder) and e.key in shown]
