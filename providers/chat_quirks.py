"""How servers of the Chat Completions API differ, as data: which names they use and what they cannot take."""

from typing import Literal

from msgspec import Struct


class ChatQuirks(Struct, frozen=True):
    """The defaults are what most compatible servers take."""

    output_cap: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Under which name the cap on the reply is sent."""
    usage: Literal["asked", "unasked"] = "asked"
    """`asked`: `stream_options` asks for a report; servers that refuse the field get none."""
    parallel_calls: bool | None = None
    """Sent as `parallel_tool_calls`; None: not sent, the server decides."""
    effort: Literal["reasoning_effort", "none"] = "none"
    """Under which name the reasoning level is sent, if at all."""
    reasoning_back: Literal["", "reasoning_content", "reasoning"] = ""
    """The field in which a reply's reasoning is sent back with it; empty: it is shown and never sent back."""
    calls_as_text: bool = False
    """The model writes its calls into the text, as `<tool_call>{"name": …, "arguments": …}</tool_call>`."""
    system_role: Literal["system", "developer"] = "system"
    cache_key: bool = False
    """Whether `prompt_cache_key` is sent."""
    call_ids: Literal["any", "nine"] = "any"
    """`nine`: an id of a call must be nine letters and digits."""
