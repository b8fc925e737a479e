"""The request for a summary, in its two forms, the check of the reply, and the message that stands in the window afterwards.

Pure: nothing here calls a model. The shared form is the conversation's own request plus one user message, so that the
provider's cache is hit; the rendered form gives the transcript as text to a request without tools. Decisions: the record
comes first and the summary last, next to the messages that stay; a reply without the asked-for headings is still used,
since the record holds the facts, and the message names what is missing.
"""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

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
SECTIONS = (
    "Goal",
    "Constraints and preferences",
    "Progress",
    "Key decisions",
    "Next steps",
    "Critical context",
)
_WORDS_PER_TOKEN = 0.6
_RENDERED_GENERATION = -1


class Reply(Struct, frozen=True):
    """What came back for a summary request. `text` is all its text; thinking is not part of it."""

    text: str
    tool_calls: bool
    stop_reason: StopReason
    usage: Usage = Usage()
    cost_usd: float | None = None


def shared_ask(previous: str, focus: str, max_tokens: int, index: str = "", first_replaced: int = 0) -> str:
    """The text that asks for a summary behind the conversation itself; with a `previous` one it asks for an update.

    `index` lists the entries that go. `first_replaced` as in `Compaction`.
    """
    if first_replaced:
        goes = _prompt("summary_from").replace("{entry}", str(first_replaced))
    else:
        goes = _prompt("summary_older").replace("{again}", " again" if previous else "")
    update = _prompt("summary_update").replace("{where}", "it ends the first message of this conversation")
    ask = _prompt("summary_ask").replace("{goes}", goes).replace("{update}", f" {update}" if previous else "")
    listed = f"These entries are replaced, each with its number:\n{fence(index)}" if index else ""
    return "\n\n".join(part for part in (ask, listed, _wish(focus), _sections(max_tokens)) if part)


def rendered_ask(previous: str, focus: str, max_tokens: int, part: int = 1, more: bool = False) -> str:
    """The text that asks for a summary of a transcript that stands above it, or of one part of it (1-based)."""
    update = _prompt("summary_update").replace("{where}", "it stands above, before the transcript")
    parts = _prompt("summary_more" if more else "summary_last").replace("{part}", str(part)) if more or part > 1 else ""
    ask = _prompt("summary_rendered").replace("{update}", f" {update}" if previous else "")
    return "\n\n".join(piece for piece in (ask, parts, _wish(focus), _sections(max_tokens)) if piece)


def shared_request(request: ModelRequest, ask: str, max_tokens: int) -> ModelRequest:
    """The conversation's own `request`, followed by the request for a summary."""
    return replace(request, max_tokens=max_tokens, extra=(UserMessage((TextBlock(ask),)),))


def rendered_request(
    model: str, effort: Effort | None, transcript: str, previous: str, ask: str, max_tokens: int
) -> ModelRequest:
    """A request without tools: one user message with the earlier summary and the transcript."""
    pieces = [f"The transcript to summarise:\n\n{fence(transcript)}", ask]
    if previous:
        pieces.insert(0, f"The earlier summary:\n\n{fence(previous)}")
    return ModelRequest(
        model=model,
        system=summary_system(),
        tools=(),
        messages=(UserMessage((TextBlock("\n\n".join(pieces)),)),),
        generation=_RENDERED_GENERATION,
        stable=0,
        max_tokens=max_tokens,
        effort=effort,
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


def missing_sections(summary: str) -> tuple[str, ...]:
    """The headings that were asked for and are not there, in order."""
    return tuple(
        name
        for name in SECTIONS
        if not re.search(rf"^[#*\s]*{re.escape(name)}\b", summary, re.IGNORECASE | re.MULTILINE)
    )


def message_text(
    record: str,
    summary: str,
    has_request: bool,
    missing: Sequence[str] = (),
    can_recall: bool = True,
    from_middle: bool = False,
) -> str:
    """The whole text of the compaction's message: fenced as history, the record first."""
    parts = [record, f"# Summary of the work so far\n\n{disarm(summary.strip())}"]
    if record:
        parts.insert(0, "# Record")
    if missing:
        parts.append(f"(The summary has no section {', '.join(missing)}.)")
    text = _prompt("summary_message").replace("{request}", f" {_prompt('summary_request')}" if has_request else "")
    text = text.replace(
        "{part}", "This part of the conversation" if from_middle else "The older part of this conversation"
    )
    text = text.replace("{recall}", f" {_prompt('summary_recall')}" if can_recall else "")
    return text.replace("{history}", fence("\n\n".join(part for part in parts if part), "history"))


def _wish(focus: str) -> str:
    return f"The user asks to pay special attention to this:\n{fence(focus.strip())}" if focus.strip() else ""


def _sections(max_tokens: int) -> str:
    return _prompt("summary_sections").replace("{words}", str(max(40, int(max_tokens * _WORDS_PER_TOKEN))))


@cache
def _prompt(name: str) -> str:
    return (_PROMPTS / f"{name}.md").read_text(encoding="utf-8").strip()
