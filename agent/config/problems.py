"""What is wrong with a configuration, as values that say where, what was expected and what to do."""

from typing import Literal

from msgspec import Struct

from agent.config.reading import printable

Severity = Literal["error", "warning", "notice"]


class Problem(Struct, frozen=True):
    """One thing that is wrong. An `error` ends print mode and `claw config check` with exit code 2; the TUI goes on."""

    severity: Severity
    message: str
    source: str
    """The file's path, or "command line", or "environment"."""
    line: int | None = None
    """1-based."""
    column: int | None = None
    key: str = ""
    """Dotted, as TOML writes it."""
    expected: str = ""
    remedy: str = ""
    """What to do, with the nearest known key where there is one."""

    def __str__(self) -> str:
        """One line, safe to draw: `FILE:LINE:COLUMN: key: message; expected …; remedy`."""
        place = self.source
        if self.line is not None:
            place += f":{self.line}"
            if self.column is not None:
                place += f":{self.column}"
        parts = [self.message]
        if self.expected:
            parts.append(f"expected {self.expected}")
        if self.remedy:
            parts.append(self.remedy)
        key = f"{self.key}: " if self.key else ""
        return printable(f"{place}: {key}{'; '.join(parts)}")
