"""A home, managed policy and a project with real files, and short ways to look at what discovery finds there."""

from pathlib import Path

from agent.config.paths import Paths
from agent.config.schema import InstructionsConfig, Layer, LayerValue
from agent.instructions.discovery import Place, discover
from agent.instructions.item import Include, InstructionItem, all_includes
from agent.permissions.consents import Consents


class Tree:
    """A home, managed policy and a project two folders deep."""

    def __init__(self, root: Path) -> None:
        home = root / "home"
        self.root = root
        self.project = root / "project"
        self.cwd = self.project / "a" / "b"
        self.cwd.mkdir(parents=True)
        self.paths = Paths(home / "c", home / "d", home / "s", home / "k", home, root / "managed")
        for folder in (self.paths.config, self.paths.managed):
            folder.mkdir(parents=True)

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        target.chmod(0o644)
        return target

    def place(self, *, trusted: bool = True, added: tuple[Path, ...] = ()) -> Place:
        return Place(self.paths, self.project, self.cwd, added, trusted)

    def consents(self, *, can_ask: bool = True) -> Consents:
        return Consents(self.paths.state_file, self.project, can_ask=can_ask)

    def find(
        self,
        config: InstructionsConfig | None = None,
        *,
        enabled: bool = True,
        trusted: bool = True,
        added: tuple[Path, ...] = (),
        window: int | None = None,
        consents: Consents | None = None,
    ) -> tuple[InstructionItem, ...]:
        return discover(
            self.place(trusted=trusted, added=added),
            config or InstructionsConfig(),
            enabled=enabled,
            effective_window_tokens=window,
            consents=consents,
        )


def value(layer: Layer, text: str, base: Path = Path("/")) -> LayerValue:
    return LayerValue(layer, text, str(base), f"{layer}.toml")


def loaded(items: tuple[InstructionItem, ...]) -> list[str]:
    return [item.text for item in items if item.is_loaded]


def skipped(items: tuple[InstructionItem, ...]) -> dict[str, str]:
    return {Path(item.path).name: item.skipped_because for item in items if item.status == "skipped"}


def includes(items: tuple[InstructionItem, ...]) -> list[Include]:
    """Of all items, with those of what they include."""
    return [include for item in items for _, include in all_includes(item)]


def reasons(items: tuple[InstructionItem, ...]) -> dict[str, str]:
    """Why includes were not followed, by how they are written."""
    return {include.written: include.reason for include in includes(items) if include.status != "followed"}
