"""Every key of config.toml: its type, who may set it, how layers merge, and one line of what it does.

A part `*` stands for a name that the user chooses. `SECTIONS` are tables that are known and not in force yet.
"""

import functools
import operator
import re
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, inspect

from agent.command_environment import variable_fault
from agent.config.addresses import address_fault
from agent.config.key_paths import KeyPath
from agent.config.schema import Background, InstructionFormat, InstructionLayer, Mode
from agent.permissions.path_pattern import PathScope
from agent.permissions.rules import RuleError, parse_rule
from providers.models import ModelOverride
from providers.types import ChatQuirks, Effort

Scope = Literal["user", "tighten", "any", "managed"]
"""`user`: ignored in the project's files. `tighten`: any layer may only make it stricter. `managed`: policy only."""

Merge = Literal["first", "union", "least", "all"]
"""`first`: the highest layer wins. `union`: the lists of all layers. `least`: the smallest number. `all`: all, in order."""

_ANYWHERE = PathScope(Path("/"), Path("/"))


class Key(Struct, frozen=True):
    name: str
    """Dotted, with `*` for a chosen name."""
    type: Any
    """What one value must be: for `union` and list keys the type of the whole list."""
    scope: Scope
    about: str
    merge: Merge = "first"
    expected: str = ""
    """What is expected, in words; empty: worked out from the type."""
    fault: Callable[[Any], str] | None = None
    """What is wrong with a value (of a list: with one item) that has the type; empty: nothing."""
    secret: bool = False
    """Whether a wrong value must not be repeated in a message, because a key may have been pasted there."""

    @property
    def path(self) -> KeyPath:
        return tuple(self.name.split("."))

    @property
    def wanted(self) -> str:
        return self.expected or describe(self.type)


def rule_fault(text: str) -> str:
    """Why `text` is no permission rule; empty if it is one."""
    try:
        parse_rule(text, _ANYWHERE)
    except RuleError as error:
        return error.fault
    return ""


def _blocked_fault(text: str) -> str:
    return rule_fault(f"bash({text})")


def _protected_fault(text: str) -> str:
    return rule_fault(f"edit({text})")


def model_fault(text: str) -> str:
    """Why `text` does not name a model; empty if it does. The model's own name may contain slashes."""
    provider, slash, model = text.partition("/")
    if not (provider and slash and model):
        return "the provider's name and a slash are missing in front of the model"
    return "" if text.isprintable() and " " not in text else "it contains a space or a control character"


def _trigger_fault(value: object) -> str:
    if isinstance(value, float):
        return "" if 0 < value < 1 else "a number with a point is a fraction of the window"
    return "a whole number counts tokens" if isinstance(value, int) and value < 1000 else ""


def _directory_fault(text: str) -> str:
    return "" if text.startswith(("/", "~/")) or text == "~" else "a relative path could mean any folder"


def _pattern_fault(text: str) -> str:
    from pathspec import GitIgnoreSpec  # imported by those alone who exclude something

    # Each * in a part multiplies the time that matching can take.
    if len(text) > 256 or any(part.count("*") > 3 for part in text.split("/")) or text.count("**") > 3:
        return "it has too many *"
    try:
        GitIgnoreSpec.from_lines([text])
    except (ValueError, re.error) as error:
        return str(error)
    return ""


_Count = Annotated[int, Meta(ge=1)]
_Amount = Annotated[int, Meta(ge=0)]
_Name = Annotated[str, Meta(min_length=1)]
_Strings = list[_Name]
_RULE_TEXT = 'a rule: tool or tool(argument), for instance "bash(git log)"'
_MODEL_TEXT = 'text of the form "PROVIDER/MODEL"'
_TRIGGER_TEXT = '"auto", "buffer", "ratio", a number of tokens (at least 1000), or a fraction above 0.0 and below 1.0'


def _flatten(struct: type[Struct], prefix: str, within: tuple[type, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The leaves of a struct's fields with their types, optional ones without the None; a struct in itself is a leaf."""
    hints = typing.get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        hint = hints[field.name]
        if typing.get_origin(hint) in (typing.Union, types.UnionType):
            choices = [choice for choice in typing.get_args(hint) if choice is not type(None)]
            hint = functools.reduce(operator.or_, choices)
        name = f"{prefix}.{field.encode_name}"
        if isinstance(hint, type) and issubclass(hint, Struct) and hint not in within:
            yield from _flatten(hint, name, (*within, hint))
        else:
            yield name, hint


KEYS: tuple[Key, ...] = (
    Key("model", str, "any", "the model that answers, as PROVIDER/MODEL", expected=_MODEL_TEXT, fault=model_fault),
    Key("effort", Effort, "any", "how much the model thinks before it answers"),
    Key("instructions.text", str, "any", "instructions for the model, after all files", "all"),
    Key("instructions.files", _Strings, "any", "further instruction files to load", "all"),
    Key(
        "instructions.exclude",
        _Strings,
        "any",
        "instruction files not to load",
        "all",
        "a pattern as in .gitignore",
        _pattern_fault,
    ),
    Key("instructions.format", InstructionFormat, "any", "how instruction files stand in the system prompt"),
    Key("instructions.layers", list[InstructionLayer], "user", "which layers of instruction files are loaded"),
    Key("instructions.max_file_chars", _Count, "tighten", "characters loaded of one instruction file", "least"),
    Key("instructions.max_total_chars", _Count, "tighten", "characters loaded of all instruction files", "least"),
    Key(
        "instructions.max_include_depth",
        Annotated[int, Meta(ge=0, le=20)],
        "tighten",
        "how deep instruction files may include each other",
        "least",
    ),
    Key(
        "context.trigger",
        Literal["auto", "buffer", "ratio"] | int | float,
        "any",
        "when the conversation is compacted",
        expected=_TRIGGER_TEXT,
        fault=_trigger_fault,
    ),
    Key("context.auto_compact", bool, "any", "whether compaction starts by itself"),
    Key("context.keep_recent_tokens", _Count, "any", "tokens of recent messages that a compaction leaves whole"),
    Key("context.preserve_recent", _Count, "any", "recent messages that a compaction leaves whole"),
    Key("context.reserve_tokens", _Count, "any", "tokens of the context window kept free for the reply"),
    Key("context.user_words_tokens", _Amount, "any", "tokens of your own words that a compaction keeps word for word"),
    Key("context.pin_tokens", _Amount, "any", "tokens that pinned things may take"),
    Key(
        "context.summary_model",
        str,
        "any",
        "the model that writes summaries",
        expected=_MODEL_TEXT,
        fault=model_fault,
    ),
    Key("context.background", Background, "any", "whether summaries are prepared while work goes on"),
    Key("hooks.PreCompact", _Strings, "user", "commands that run before a compaction", "union"),
    Key("hooks.PostCompact", _Strings, "user", "commands that run after a compaction", "union"),
    Key("permissions.mode", Mode, "user", "what runs without asking"),
    Key("permissions.allow", _Strings, "user", "calls that run without asking", "union", _RULE_TEXT, rule_fault),
    Key("permissions.ask", _Strings, "tighten", "calls that always ask", "union", _RULE_TEXT, rule_fault),
    Key("permissions.deny", _Strings, "tighten", "calls that are always refused", "union", _RULE_TEXT, rule_fault),
    Key(
        "permissions.allowed_directories",
        _Strings,
        "user",
        "folders outside the project that count as inside",
        "union",
        "a path that begins with / or ~/",
        _directory_fault,
    ),
    Key(
        "permissions.protected_patterns",
        _Strings,
        "tighten",
        "files that are never edited",
        "union",
        "a path pattern below the project, or one that begins with / or ~/",
        _protected_fault,
    ),
    Key(
        "permissions.blocked_commands",
        _Strings,
        "tighten",
        "commands that are always refused",
        "union",
        "how a command begins, in shell words",
        _blocked_fault,
    ),
    Key(
        "commands.environment",
        _Strings,
        "user",
        "further environment variables that commands may see",
        "union",
        "the name of an environment variable",
        variable_fault,
    ),
    Key("providers.*.api", Literal["anthropic", "responses", "chat"], "user", "the wire API the server speaks"),
    Key(
        "providers.*.base_url",
        str,
        "user",
        "the server's address",
        expected="an https:// address, or http:// for this machine",
        fault=address_fault,
        secret=True,
    ),
    Key(
        "providers.*.key_env",
        Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$")],
        "user",
        "the environment variable that holds the key",
        expected="the name of an environment variable, not the key itself",
        secret=True,
    ),
    Key("providers.*.headers.*", str, "user", "an HTTP header sent with every request", secret=True),
    Key(
        "providers.*.connect_timeout_s",
        Annotated[float, Meta(gt=0, le=600)],
        "user",
        "seconds to wait for a connection",
    ),
    Key("providers.*.cache_marks", bool, "user", "whether Anthropic cache breakpoints are sent"),
    *(
        Key(name, hint, "user", "what this server of the Chat Completions API wants differently")
        for name, hint in _flatten(ChatQuirks, "providers.*.quirks")
    ),
    *(Key(name, hint, "user", "a fact about this model") for name, hint in _flatten(ModelOverride, "models.*")),
    Key("limits.max_cost", Annotated[float, Meta(gt=0)], "tighten", "USD one run may cost", "least"),
    Key("limits.max_turns", _Count, "tighten", "model calls one run may take", "least"),
    # Retention deletes sessions, so a project may not shorten it.
    Key("limits.retention_days", _Count, "user", "days after which old sessions are deleted"),
    Key("tui.theme", _Name, "any", "the colours of the screen"),
    Key("managed.locked", _Strings, "managed", "keys for which only the managed value counts", "union"),
)

SECTIONS = ("mcp.servers", "checks", "sandbox")
PROFILES = "profiles"
RESERVED = ("scripted", "local")
"""Providers that claw makes itself."""


def describe(hint: Any) -> str:
    """What a type accepts, in words for the writer of a config file."""
    return _describe(inspect.type_info(hint))


def _describe(info: inspect.Type) -> str:
    match info:
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType(values=values):
            shown = ", ".join(f'"{value}"' for value in values)
            return f"one of {shown}"
        case inspect.IntType():
            return "a whole number" + _bounds(info)
        case inspect.FloatType():
            return "a number" + _bounds(info)
        case inspect.StrType():
            return "text in quotes"
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return f"a list, each item {_describe(item)}"
        case inspect.StructType(cls=cls):
            return "a table with " + ", ".join(field.encode_name for field in msgspec.structs.fields(cls))
        case inspect.UnionType(types=choices):
            return " or ".join(_describe(c) for c in choices if not isinstance(c, inspect.NoneType))
        case _:
            return "another kind of value"


def _bounds(info: inspect.IntType | inspect.FloatType) -> str:
    words = (("above", info.gt), ("at least", info.ge), ("below", info.lt), ("at most", info.le))
    shown = [f"{word} {value:g}" for word, value in words if value is not None]
    return f" {' and '.join(shown)}" if shown else ""
