"""A question beside the conversation: one call that sees the window as it is and leaves no trace in it.

The request is the conversation's own with one message behind it, so that a provider's cache is used and none is spoilt. No
tool runs, nothing is appended. Decision: what it costs is counted in the session's total of this process; since no entry
holds it, a resumed session no longer knows of it.
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from agent.conversation import Conversation
from agent.events import RetryScheduled
from agent.prompt import load_prompt
from agent.retry import AssemblerHolder, stream_with_retry
from providers.base import ModelRequest
from providers.models import cost_usd
from providers.types import StreamEvent, TextBlock, TextDelta, ToolCall, Usage, UserMessage

MOST_ANSWER_TOKENS = 4_000


class SideAnswer(Struct, frozen=True):
    text: str
    """Foreign text; empty where the model said nothing."""
    wanted_tool: str = ""
    """The tool it tried to call, which did not run."""
    is_cut: bool = False
    usage: Usage = Usage()
    cost_usd: float | None = None


async def ask_aside(
    talk: Conversation,
    question: str,
    on_text: Callable[[str], None],
    on_retry: Callable[[RetryScheduled], None],
) -> SideAnswer:
    """Ask, also while a turn runs. `on_text` gets each piece of the answer; before a piece of another try, `on_retry` is told.

    Cancelling it ends the call.

    Raises:
        ProviderError: after all retries.
    """
    await talk.durable()
    holder = AssemblerHolder()

    def show(event: StreamEvent) -> None:
        if isinstance(event, TextDelta):
            on_text(event.text)

    cost = None
    try:
        assembler = await stream_with_retry(
            talk.provider,
            side_request(talk, question),
            policy=talk.retry_policy,
            on_event=show,
            emit_retry=on_retry,
            on_restart=lambda: None,
            holder=holder,
        )
        await talk.know_prices()
    finally:
        cost = cost_usd(talk.facts, holder.current.usage)
        talk.spent(cost)
        talk.emit_gauge()
    blocks = assembler.blocks()
    return SideAnswer(
        "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock)).strip(),
        next((block.name for block in blocks if isinstance(block, ToolCall)), ""),
        assembler.stop_reason == "max_tokens",
        assembler.usage,
        cost,
    )


def side_request(talk: Conversation, question: str) -> ModelRequest:
    """The conversation's request with the question behind it; before the first message, what that would begin with."""
    request = talk.request(min(MOST_ANSWER_TOKENS, talk.facts.max_output_tokens))
    if not len(talk.recorder.transcript):
        window, _ = talk.reading()
        request = replace(
            request,
            system=window.prefix.sections,
            tools=window.prefix.tools,
            messages=window.messages,
            generation=window.generation,
            stable=window.stable,
            sent_before=0,
        )
    asked = f"{load_prompt('side_question')}\n{question}"
    return replace(request, messages=list(request.messages), extra=(UserMessage((TextBlock(asked),)),))
