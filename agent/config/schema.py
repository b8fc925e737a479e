"""The configuration in force, as frozen values with their defaults. Where values come from and which key may be set by
whom is not known here: that is `keys.py` (every key, its type, scope and meaning) and `layers.py`.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from providers.models import ModelOverride
from providers.types import ChatQuirks, Effort, WireApi

Layer = Literal["managed", "command line", "environment", "profile", "local", "project", "user", "default"]
Mode = Literal["plan", "ask", "edits", "auto"]
InstructionFormat = Literal["tags", "headings"]
Background = Literal["auto", "on", "off"]
InstructionLayer = Literal["user", "project", "local"]


class LayerValue(Struct, frozen=True):
    """A value that keeps its layer, because the values of all layers count."""

    layer: Layer
    value: str
    base: str
    """Absolute folder that a relative path in `value` refers to."""
    source: str
    """The file it was read from, or "command line"."""


class InstructionsConfig(Struct, frozen=True):
    text: tuple[LayerValue, ...] = ()
    """In the order managed, user, project, local, profile, command line: the last word comes last."""
    files: tuple[LayerValue, ...] = ()
    exclude: tuple[LayerValue, ...] = ()
    format: InstructionFormat = "tags"
    layers: tuple[InstructionLayer, ...] = ("user", "project", "local")
    """Which layers are loaded; the managed one always is."""
    max_file_chars: int = 40_000
    max_total_chars: int = 120_000
    max_include_depth: int = 5


class ContextConfig(Struct, frozen=True):
    trigger: Literal["auto", "buffer", "ratio"] | int | float = "auto"
    """A whole number is tokens, a number with a point a fraction of the effective window."""
    auto_compact: bool = True
    keep_recent_tokens: int = 20_000
    preserve_recent: int = 4
    """Messages."""
    reserve_tokens: int | None = None
    """None: by the model's output limit and window."""
    user_words_tokens: int = 20_000
    pin_tokens: int = 20_000
    summary_model: str | None = None
    """"PROVIDER/MODEL"; None: the model that answers."""
    background: Background = "auto"
    """Whether summaries are prepared while work goes on. "auto": where the provider caches prompts and is not this machine."""


class HooksConfig(Struct, frozen=True):
    """Shell command lines of the user that run at certain moments, in this order."""

    pre_compact: tuple[str, ...] = msgspec.field(default=(), name="PreCompact")
    post_compact: tuple[str, ...] = msgspec.field(default=(), name="PostCompact")


class PermissionsConfig(Struct, frozen=True):
    mode: Mode | None = None
    """None: not set, which means "ask"."""
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allowed_directories: tuple[str, ...] = ()
    """Absolute, or beginning with `~/`."""
    protected_patterns: tuple[str, ...] = ()
    blocked_commands: tuple[str, ...] = ()


class CommandsConfig(Struct, frozen=True):
    environment: tuple[str, ...] = ()
    """Names of variables that commands see besides the usual ones."""


class ProviderSettings(Struct, frozen=True):
    api: WireApi | None = None
    base_url: str | None = None
    """As it was written; `providers.py` normalises it."""
    key_env: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    connect_timeout_s: float = 10.0
    cache_marks: bool = True
    quirks: ChatQuirks = ChatQuirks()


class LimitsConfig(Struct, frozen=True):
    max_cost: float | None = None
    """USD of one run."""
    max_turns: int | None = None
    retention_days: int | None = None
    """None: sessions are kept for ever."""


class TuiConfig(Struct, frozen=True):
    theme: str | None = None


class Config(Struct, frozen=True):
    """What is in force, all layers merged."""

    model: str | None = None
    """"PROVIDER/MODEL"."""
    effort: Effort | None = None
    instructions: InstructionsConfig = InstructionsConfig()
    context: ContextConfig = ContextConfig()
    hooks: HooksConfig = HooksConfig()
    permissions: PermissionsConfig = PermissionsConfig()
    commands: CommandsConfig = CommandsConfig()
    providers: dict[str, ProviderSettings] = msgspec.field(default_factory=dict)
    """By name; those that claw knows and that need a key are always among them."""
    models: dict[str, ModelOverride] = msgspec.field(default_factory=dict)
    """By model id, or by "PROVIDER/ID"."""
    limits: LimitsConfig = LimitsConfig()
    tui: TuiConfig = TuiConfig()
    profiles: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """What each profile sets, by dotted key, for display."""
