"""A window to look at and to edit, without a session: pieces in memory, edits that are recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace
from textual.app import App

from agent.context.pieces import Action, ChartPoint, Edit, Piece, Refused
from agent.events import GaugeChanged
from agent.transcript import Drop, Pin
from tui.screens.context import ContextScreen
from tui.themes import palette_for, register_themes

MINUTE_MS = 60_000
EDITS: tuple[Action, ...] = ("pin", "drop", "shorten")


def some_pieces(now_ms: int = 0) -> list[Piece]:
    """One of each kind, and a turn or two."""
    old, new = now_ms - 90 * MINUTE_MS, now_ms - 3 * MINUTE_MS
    return [
        Piece("system", "base", "How claw works", 1_900, origin="built in"),
        Piece("system", "environment", "platform, date", 240, origin="built in"),
        Piece("tools", "read", "Reads a file", 410, origin="built in"),
        Piece("tools", "bash", "Runs a command", 620, origin="built in"),
        Piece("instructions", "~/.config/claw/AGENTS.md", "Short answers.", 900, origin="user"),
        Piece("instructions", "AGENTS.md", "Tests first.", 2_300, origin="project"),
        Piece("summary", "", "What was done so far", 6_100, (40,), old, "compaction", actions=("pin",)),
        Piece("pins", "", "never touch the wire format", 120, (41,), old, "pinned by you", is_pinned=True, actions=("unpin",)),
        Piece("user", "", "Why does the parser fail on CRLF? 漢字", 320, (50,), old, "you", actions=EDITS),
        Piece("thinking", "", "The reader splits at LF alone", 1_400, (51,), old, "demo"),
        Piece("assistant", "", "I look at the reader first.", 260, (51,), old, "demo", actions=EDITS),
        Piece("tool_results", "read", "src/reader.py", 18_400, (52,), old, "call 51", actions=EDITS),
        Piece("tool_results", "bash", "pytest -q tests/test_reader.py", 9_200, (54,), new, "call 53", actions=EDITS),
        Piece("tool_results", "grep", "CRLF", 0, (56,), new, "call 55", state="dropped", actions=("restore",)),
        Piece("tool_results", "read", "src/writer.py", 90, (58,), new, "call 57", state="shortened", actions=("restore",)),
        Piece("reminders", "", "src/reader.py changed on disk", 70, (59,), new, "claw"),
        Piece("user", "", "Go on.", 12, (60,), new, "you", actions=EDITS),
    ]  # fmt: skip


@dataclass
class FakeWindow:
    """Satisfies `ContextSource`."""

    held: list[Piece] = field(default_factory=some_pieces)
    points: list[ChartPoint] = field(default_factory=list)
    refusal: str = ""
    cost_usd: float | None = 0.04
    note: str = ""
    effective_tokens: int = 172_000
    window_tokens: int = 200_000
    trigger_tokens: int = 150_000
    head: int = 60
    applied: list[Edit] = field(default_factory=list)
    undone: int = 0
    failure: Exception | None = None
    """Of every edit."""
    broken: Exception | None = None
    """Of every look at the pieces."""

    def gauge(self) -> GaugeChanged:
        used = sum(piece.tokens for piece in self.held)
        return GaugeChanged(used, True, self.effective_tokens, self.window_tokens, self.trigger_tokens, 0.2)

    def pieces(self) -> Sequence[Piece]:
        if self.broken is not None:
            raise self.broken
        return self.held

    def chart(self) -> Sequence[ChartPoint]:
        return self.points

    def plan(self, action: Action, keys: Sequence[int]) -> Edit | Refused:
        if self.refusal:
            return Refused(self.refusal)
        moved = [piece for piece in self.held if set(piece.keys) & set(keys)]
        freed = sum(piece.tokens for piece in moved) if action in ("drop", "shorten") else 0
        payload = Pin(tuple(keys)) if action == "pin" else Drop(tuple(keys))
        lost = 12_400 if freed else 0
        return Edit(
            action, (payload,), tuple(keys), self.head, freed, lost, self.cost_usd if freed else None, self.note
        )

    def apply(self, edit: Edit) -> str:
        if self.failure is not None:
            raise self.failure
        self.applied.append(edit)
        self.head += 1
        for place, piece in enumerate(self.held):
            if set(piece.keys) & set(edit.keys):
                self.held[place] = self._after(piece, edit.action)
        return f"{edit.action} done."

    def _after(self, piece: Piece, action: Action) -> Piece:
        match action:
            case "pin" | "unpin":
                return replace(piece, is_pinned=action == "pin")
            case "drop":
                return replace(piece, state="dropped", tokens=0, actions=("restore",))
            case "shorten":
                return replace(piece, state="shortened", tokens=30, actions=("restore",))
            case "restore":
                return replace(piece, state="whole", tokens=500, actions=EDITS)

    def undo(self) -> str:
        if self.failure is not None:
            raise self.failure
        self.undone += 1
        return "The drop counts no longer."

    def newest(self) -> str:
        return self.applied[-1].action if len(self.applied) > self.undone else ""

    def show(self, piece: Piece) -> str:
        return f"all of {piece.detail}\n" * 60


class ContextApp(App[None]):
    """Nothing but the screen."""

    CSS_PATH = "../../tui/claw.tcss"

    def __init__(self, source: FakeWindow, theme: str = "claw-dark") -> None:
        super().__init__()
        register_themes(self)
        self.theme = theme
        self.source = source

    def get_theme_variable_defaults(self) -> dict[str, str]:
        color = palette_for(self.current_theme).dim.color
        return {"claw-dim": color.triplet.hex if color is not None and color.triplet else "#808080"}

    def on_mount(self) -> None:
        self.push_screen(ContextScreen(self.source))
