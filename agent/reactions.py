"""What a reply asks of the loop: a pure function from how the model stopped to what happens next.

The table is that of the providers' documented stop reasons; whatever a provider invents later is taken as an end, with
a warning. Nothing here repeats more than a fixed number of times in a turn.
"""

from typing import Literal

from msgspec import Struct

from agent.transcript import Assistant
from providers.types import OpaqueBlock, TextBlock, ToolCall

MAX_PAUSES = 5
"""How often a paused server-side turn is sent back (Anthropic's pause_turn)."""

MAX_CUT_CALLS = 3
"""How often calls of a reply that was cut off are refused, beyond the first time, before the turn ends."""

CONTINUE_TEXT = (
    "Your reply was cut off at the output limit. Go on exactly where it stopped, without repeating anything."
)
BLANK_TEXT = "[The message had no visible text.]"
BROKEN_TEXT = (
    "Your last reply broke off before it was complete. Go on exactly where it stopped, without repeating anything."
)
"""Before a request that would otherwise end with a reply, which providers refuse."""
CUT_CALL_TEXT = (
    "Your reply was cut off at the output limit while you wrote a tool call, and nothing of it was run. "
    "Write it again, in smaller pieces if it is long."
)
CUT_RESULT = (
    "[Not run: the reply was cut off at the output limit before it was complete. Call it again if you still need it.]"
)
EMPTY_TEXT = "Your last reply had no visible text and no tool call. Answer the request, or say what keeps you from it."
_THOUGHTS = ("redacted_thinking", "reasoning")


class RunCalls(Struct, frozen=True):
    calls: tuple[ToolCall, ...]
    warning: str = ""


class RefuseCalls(Struct, frozen=True):
    """Answer these calls with an error, then say `text` and go on with a larger output cap."""

    calls: tuple[ToolCall, ...]
    result: str
    text: str


class GoOn(Struct, frozen=True):
    """Send again behind this synthetic user message."""

    text: str
    larger_cap: bool = False


class Resend(Struct, frozen=True):
    """Send the same again: the provider paused."""


class Compact(Struct, frozen=True):
    """The window is full although the request was accepted: compact once, then go on."""


class End(Struct, frozen=True):
    reason: Literal["done", "refusal", "no_answer", "context_full"]
    warning: str = ""


Reaction = RunCalls | RefuseCalls | GoOn | Resend | Compact | End


class Tried:
    """What this turn has already tried."""

    def __init__(self) -> None:
        self.empty = 0
        self.larger_cap = 0
        self.cut_calls = 0
        self.pauses = 0
        self.compactions = 0
        self.attachments = 0

    def succeeded(self) -> None:
        """A reply came that was not too long: what was done to make the request smaller may be done again for a later one."""
        self.compactions = self.attachments = 0


def react(reply: Assistant, tried: Tried) -> Reaction:
    """Decide what comes after a reply, and count it in `tried`."""
    calls = tuple(b for b in reply.blocks if isinstance(b, ToolCall) and b.finished)
    match reply.stop_reason:
        case "max_tokens":
            return _cut(reply, calls, tried)
        case "refusal":
            return End("refusal", f"The model declined to answer. {reply.detail}".strip())
        case "pause_turn" if tried.pauses < MAX_PAUSES and not calls:
            tried.pauses += 1
            # Only a reply with the server's own tools in it can be sent back to be gone on with.
            served = any(isinstance(b, OpaqueBlock) and b.raw.get("type") not in _THOUGHTS for b in reply.blocks)
            return Resend() if served else GoOn(BROKEN_TEXT)
        case "context_window_exceeded" if not calls:
            if tried.compactions:
                return End("context_full", "The context window is full, and compacting it was not enough.")
            tried.compactions += 1
            return Compact()
    warning = _warning(reply, calls)
    if calls:
        return RunCalls(calls, warning)
    if any(isinstance(b, TextBlock) and b.text.strip() for b in reply.blocks):
        return End("done", warning)
    if tried.empty:
        return End("no_answer", "The model gave no visible answer.")
    tried.empty += 1
    return GoOn(EMPTY_TEXT)


def _cut(reply: Assistant, calls: tuple[ToolCall, ...], tried: Tried) -> Reaction:
    in_call = calls or any(isinstance(b, ToolCall) for b in reply.blocks)
    if tried.larger_cap:
        if calls and tried.cut_calls < MAX_CUT_CALLS:
            tried.cut_calls += 1
            return RefuseCalls(calls, CUT_RESULT, "")
        return End("done", "The reply was cut off at the output limit. Ask to go on, or raise the model's output cap.")
    tried.larger_cap += 1
    if in_call:
        return RefuseCalls(calls, CUT_RESULT, CUT_CALL_TEXT)
    return GoOn(CONTINUE_TEXT, larger_cap=True)


def _warning(reply: Assistant, calls: tuple[ToolCall, ...]) -> str:
    match reply.stop_reason:
        case "unknown":
            named = f" ({reply.detail})" if reply.detail else ""
            return f"The provider ended the reply for a reason that claw does not know{named}."
        case "pause_turn":
            return f"The provider paused more than {MAX_PAUSES} times in a row."
        case "tool_use" if not calls:
            return "The model announced a tool call and made none."
        case "context_window_exceeded":
            return "The reply filled the context window."
    return ""
