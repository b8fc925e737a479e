"""The request for a summary, in its two forms, the check of the reply, and the message that stands in the window afterwards.

Pure: nothing here calls a model. The shared form is the conversation's own request plus one user message, so that the
provider's cache is hit; the rendered form gives the transcript as text to a request without tools. Decisions: the record
comes first and the summary last, next to the messages that stay; a reply without the asked-for headings is still used,
since the record holds the facts.
"""

from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agent.context.fence import disarm, fence
from providers.base import ModelRequest
from providers.types import Effort, PromptSection, StopReason, TextBlock, Usage, UserMessage

_PROMPTS = Path(__file__).parent.parent / "prompts"
_UNFINISHED: dict[StopReason, str] = {
    "max_tokens": "the summary was cut off at its output limit",
    "context_window_exceeded": "the summary was cut off, because the context window was full",
    "refusal": "the model refused to write a summary",
    "pause_turn": "the model stopped before the summary was finished",
}
_WORDS_PER_TOKEN = 0.6
_RENDERED_GENERATION = -1


class Reply(Struct, frozen=True):
    """What came back for a summary request. `text` is all its text; thinking is not part of it."""

    text: str
    tool_calls: bool
    stop_reason: StopReason
    usage: Usage = Usage()
    cost_usd: float | None = None


def ask_text(form: Literal["shared", "rendered"], previous: str, focus: str, max_tokens: int) -> str:
    """The text that asks for a summary; with a `previous` one it asks for an update."""
    if not previous:
        ask = _prompt("summary_ask")
    elif form == "shared":
        ask = _prompt("summary_update").replace("{where}", "it ends the first message of this conversation")
    else:
        ask = _prompt("summary_update").replace("{where}", "it stands above, before the transcript")
    sections = _prompt("summary_sections").replace("{words}", str(max(40, int(max_tokens * _WORDS_PER_TOKEN))))
    wish = f"The user asks to pay special attention to this:\n{fence(focus.strip())}" if focus.strip() else ""
    return "\n\n".join(part for part in (ask, wish, sections) if part)


def shared_request(request: ModelRequest, ask: str, max_tokens: int) -> ModelRequest:
    """The conversation's own `request`, followed by the request for a summary."""
    return replace(request, max_tokens=max_tokens, extra=(UserMessage((TextBlock(ask),)),))


def rendered_request(request: ModelRequest, transcript: str, previous: str, ask: str, max_tokens: int) -> ModelRequest:
    """A request to the same model without tools: one user message with the earlier summary and the transcript."""
    pieces = [f"The transcript to summarise:\n\n{fence(transcript)}", ask]
    if previous:
        pieces.insert(0, f"The earlier summary:\n\n{fence(previous)}")
    return ModelRequest(
        model=request.model,
        system=summary_system(),
        tools=(),
        messages=(UserMessage((TextBlock("\n\n".join(pieces)),)),),
        generation=_RENDERED_GENERATION,
        stable=0,
        max_tokens=max_tokens,
        effort=request.effort,
    )


def summary_system() -> tuple[PromptSection, ...]:
    """The system prompt of the rendered form."""
    return (PromptSection("summary", _prompt("summary_system"), static=True),)


def fault(reply: Reply) -> str | None:
    """Why a reply cannot serve as a summary, or None if it can."""
    if reply.tool_calls:
        return "the model called a tool instead of writing a summary"
    if reply.stop_reason in _UNFINISHED:
        return _UNFINISHED[reply.stop_reason]
    if not reply.text.strip():
        return "the summary is empty"
    return None


def lower_effort(current: Effort | None, efforts: tuple[Effort, ...], thought: bool) -> Effort | None:
    """The model's lowest reasoning level if it is below the current one, else None.

    `efforts` are the levels the model takes, lowest first. Without a current level, the provider's own default counts as
    higher if the model `thought`.
    """
    if not efforts or current == efforts[0]:
        return None
    if current is None:
        return efforts[0] if thought else None
    order: tuple[Effort, ...] = ("off", "low", "medium", "high")
    return efforts[0] if order.index(efforts[0]) < order.index(current) else None


def message_text(record: str, summary: str, has_request: bool) -> str:
    """The whole text of the compaction's message: fenced as history, the record first."""
    parts = [record, f"# Summary of the work so far\n\n{disarm(summary.strip())}"]
    if record:
        parts.insert(0, "# Record")
    request = (
        " The one thing in it that still waits for your work is the user's request in progress, if it is not done yet."
        if has_request
        else ""
    )
    text = _prompt("summary_message").replace("{request}", request)
    return text.replace("{history}", fence("\n\n".join(part for part in parts if part), "history"))


@cache
def _prompt(name: str) -> str:
    return (_PROMPTS / f"{name}.md").read_text(encoding="utf-8").strip()
