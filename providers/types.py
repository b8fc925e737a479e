"""The plain values that pass between the agent and a model: content blocks, messages, tool specs, usage, stream events.

Everything here is a frozen value without ids or times (those belong to transcript entries). Adapters convert these
values to their wire API and back; nothing else does vendor arithmetic.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from providers.chat_quirks import ChatQuirks as ChatQuirks

Effort = Literal["off", "low", "medium", "high"]
WireApi = Literal["anthropic", "responses", "chat", "scripted"]
StopReason = Literal[
    "end_turn",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "pause_turn",
    "refusal",
    "context_window_exceeded",
    "unknown",
]


class TextBlock(Struct, frozen=True, tag="text"):
    text: str


class ImageBlock(Struct, frozen=True, tag="image"):
    """An image, named by the sha256 of its bytes; the bytes are a blob of the session."""

    media_type: str
    sha256: str
    width: int = 0
    height: int = 0
    size_bytes: int = 0
    """Of its bytes before base64; 0: unknown."""


class ThinkingBlock(Struct, frozen=True, tag="thinking"):
    """What the model thought. Only a signed block is ever sent back."""

    text: str
    signature: str | None = None


class ToolCall(Struct, frozen=True, tag="tool_call"):
    id: str
    name: str
    arguments: str
    """The raw JSON text as the model wrote it, also when it does not parse."""
    finished: bool = True
    """False if the stream ended before the block was closed: such a call never runs and is never sent back."""


class OpaqueBlock(Struct, frozen=True, tag="opaque"):
    """A block that only the same wire API and model family understands, sent back unchanged."""

    api: WireApi
    family: str
    raw: dict[str, Any]
    """The block exactly as received, as JSON values."""


UserBlock = TextBlock | ImageBlock
AssistantBlock = TextBlock | ThinkingBlock | ToolCall | OpaqueBlock


class UserMessage(Struct, frozen=True, tag="user"):
    blocks: tuple[UserBlock, ...]


class AssistantMessage(Struct, frozen=True, tag="assistant"):
    blocks: tuple[AssistantBlock, ...]


class ToolResultMessage(Struct, frozen=True, tag="tool_result"):
    """The answer to one call. The results of one step follow their assistant message in call order."""

    call_id: str
    blocks: tuple[UserBlock, ...]
    is_error: bool = False


Message = UserMessage | AssistantMessage | ToolResultMessage


class PromptSection(Struct, frozen=True):
    """One named part of the system prompt. Static sections come first; the cache boundary is behind the last of them."""

    name: str
    text: str
    static: bool


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it. `parameters` is a JSON Schema object and is sent with its keys in this order."""

    name: str
    description: str
    parameters: dict[str, Any]


class Usage(Struct, frozen=True):
    """Tokens of one call, normalised by the adapter. `input_tokens` excludes everything read from or written to a cache."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    """The share of `output_tokens` that was thinking; 0 where the provider does not say."""

    @property
    def prompt_tokens(self) -> int:
        """All tokens of the request, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def reported(self) -> bool:
        """Whether the provider said anything at all: a request is never empty."""
        return self.prompt_tokens > 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.output_tokens + other.output_tokens,
            self.thinking_tokens + other.thinking_tokens,
        )


# --------------------------------------------------------------------------- stream events
# A stream is any number of the first kinds in order, then exactly one `Completed`. A stream that ends without it is
# an error. Blocks never interleave: a delta belongs to the block opened last.


class TextDelta(Struct, frozen=True, tag="text_delta"):
    text: str
    opens_block: bool = False
    """True on the first piece of a text block that follows another text block."""


class ThinkingDelta(Struct, frozen=True, tag="thinking_delta"):
    text: str
    opens_block: bool = False


class ThinkingFinished(Struct, frozen=True, tag="thinking_finished"):
    """Closes the thinking block; it is signed where the provider signs."""

    signature: str | None = None


class ToolCallStarted(Struct, frozen=True, tag="tool_call_started"):
    id: str
    name: str


class ToolCallDelta(Struct, frozen=True, tag="tool_call_delta"):
    """A piece of the JSON text of the open call's arguments."""

    fragment: str


class ToolCallFinished(Struct, frozen=True, tag="tool_call_finished"):
    """Closes the open call. `arguments`, where given, is its whole JSON text and replaces the pieces."""

    arguments: str | None = None


class OpaqueReceived(Struct, frozen=True, tag="opaque"):
    block: OpaqueBlock


class Ping(Struct, frozen=True, tag="ping"):
    """Bytes arrived that carry no event (a ping, a comment, half of an event): the connection lives, nothing more."""


class UsageReported(Struct, frozen=True, tag="usage"):
    """A report before the end; a later one replaces it."""

    usage: Usage


class Completed(Struct, frozen=True, tag="completed"):
    stop_reason: StopReason
    usage: Usage
    """All zero if the provider did not report."""
    detail: str = ""
    """The provider's own word for an unknown stop reason, or its explanation of a refusal."""


StreamEvent = (
    TextDelta
    | ThinkingDelta
    | ThinkingFinished
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallFinished
    | OpaqueReceived
    | Ping
    | UsageReported
    | Completed
)


# --------------------------------------------------------------------------- configuration of a provider


class Secret:
    """A string that shows itself nowhere: not in reprs, logs or tracebacks. `reveal` is its only way out."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


class ProviderConfig(Struct, frozen=True):
    """Where and how to reach one provider."""

    name: str
    api: WireApi
    base_url: str | None = None
    """None: the SDK's own default address."""
    key: Secret | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    connect_timeout_s: float = 10.0
    cache_marks: bool = True
    """Whether Anthropic cache breakpoints are sent; some compatible servers refuse them."""
    quirks: ChatQuirks = ChatQuirks()
    """Of a server that speaks the Chat Completions API."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """What `repr` shows: of the headers their names alone, since their values may be secrets."""
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        return list({**shown, "headers": dict.fromkeys(self.headers, Secret(""))}.items())

    def __repr__(self) -> str:
        return f"ProviderConfig({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"
