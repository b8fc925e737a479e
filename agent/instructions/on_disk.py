"""The instruction files as they stand on disk now, read again only when something about them changed.

At the start of a turn the status of files and folders is compared; within a turn what was found is taken as it is.
"""

from collections.abc import Callable
from pathlib import Path

from agent.config.paths import PROJECT_FOLDER
from agent.config.schema import InstructionsConfig
from agent.instructions.candidates import candidates, in_folder
from agent.instructions.discovery import discover, discover_nested
from agent.instructions.item import InstructionItem
from agent.instructions.nested import watched
from agent.instructions.place import Place
from agent.instructions.system_files import APPENDS, REPLACES, SystemPromptFiles, system_prompt_files
from agent.permissions.consents import Consents
from agent.registry import Registry


class InstructionsOnDisk:
    """What `discover` and `discover_nested` find for one session."""

    def __init__(
        self,
        place: Place,
        config: InstructionsConfig,
        registry: Registry,
        *,
        enabled: bool = True,
        consents: Consents | None = None,
        effective_window_tokens: Callable[[], int | None],
        count_tokens: Callable[[str], int],
    ) -> None:
        """With `enabled` false (--no-instructions) managed policy alone is left; `consents` of None: nothing outside the
        workspace may be included by a project."""
        self.place = place
        self.config = config
        self.enabled = enabled
        self._registry = registry
        self._consents = consents
        self._effective_window_tokens = effective_window_tokens
        self._count_tokens = count_tokens

    @property
    def effective_window_tokens(self) -> int | None:
        return self._effective_window_tokens()

    def items(self) -> tuple[InstructionItem, ...]:
        """What a session that starts now would be given, with what was skipped between."""
        room, place = self.effective_window_tokens, self.place
        folders = (place.paths.managed, place.paths.config, place.cwd, *place.cwd.parents, *place.added)
        return self._registry.get(
            ("instructions", room),
            "turn",
            lambda: discover(
                place,
                self.config,
                enabled=self.enabled,
                effective_window_tokens=room,
                count_tokens=self._count_tokens,
                consents=self._consents,
            ),
            lambda items: watched(place, items, candidates(place, self.config.files), folders),
        )

    def system_files(self) -> SystemPromptFiles:
        """What replaces or extends the built-in system prompt."""
        homes = (self.place.paths.config, self.place.project / PROJECT_FOLDER)
        paths = [*homes, *(home / name for home in homes for name in (REPLACES, APPENDS))]
        return self._registry.get("system files", "turn", lambda: system_prompt_files(self.place), lambda files: paths)

    def nested(self, folder: Path) -> tuple[InstructionItem, ...]:
        """What the folder itself holds, which was not looked at when the session started."""
        room = self.effective_window_tokens
        return self._registry.get(
            ("nested", folder, room),
            "turn",
            lambda: discover_nested(
                self.place,
                self.config,
                folder,
                enabled=self.enabled,
                effective_window_tokens=room,
                count_tokens=self._count_tokens,
                consents=self._consents,
                known=self.items(),
            ),
            lambda items: watched(self.place, items, in_folder(folder, "", self.place.project), (folder,)),
        )

    def recheck(self) -> None:
        """Compare with the disk again before anything is given."""
        self._registry.new_turn()

    def forget(self) -> None:
        """Drop what was found, so that everything is read again."""
        self._registry.invalidate()
