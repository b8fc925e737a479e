"""The events that draw a transcript again after a resume: the same kinds the session emitted when it happened."""

from collections.abc import Iterable, Iterator

import msgspec

from agent.events import (
    CompactionFinished,
    CompactionStarted,
    Event,
    MessageCompleted,
    Notice,
    ToolFinished,
    ToolStarted,
    UserMessageAdded,
)
from agent.tools.details import TextDetails
from agent.transcript import Assistant, AttachmentBlock, Compaction, Entry, Result, ShellBlock, Unknown, User
from agent.window import MISSING_RESULT
from providers.types import TextBlock, ToolCall

_SAYS_WHAT = ("command", "path", "pattern")
"""Parameters that tell a call apart, the best first."""


def replay(branch: Iterable[Entry]) -> Iterator[Event]:
    """One or two events for each entry that is seen on the screen, in order. A call whose result was never recorded is
    drawn as interrupted where its result would stand."""
    open_calls: dict[str, ToolCall] = {}
    answering = 0
    for entry in branch:
        if isinstance(entry.payload, User | Assistant):
            yield from _unanswered(open_calls, answering)
        match entry.payload:
            case User(blocks=(ShellBlock() as ran,)):
                call_id = f"user-{entry.key}"
                yield ToolStarted(call_id, "!", ran.command)
                yield ToolFinished(call_id, "!", entry.key, False, TextDetails("", ran.output), ran.output)
            case User(synthetic=False) as user:
                yield UserMessageAdded(entry.key, user_text(user))
            case Assistant() as reply:
                yield MessageCompleted(
                    entry.key, reply.blocks, reply.usage, reply.cost_usd, reply.stop_reason, reply.interrupted
                )
                answering = entry.key
                open_calls.update((b.id, b) for b in reply.blocks if isinstance(b, ToolCall) and b.finished)
            case Result() as result:
                open_calls.pop(result.call_id, None)
                text = "\n".join(block.text for block in result.blocks if isinstance(block, TextBlock))
                yield ToolStarted(result.call_id, result.tool, result.title)
                yield ToolFinished(
                    result.call_id, result.tool, entry.key, result.is_error, result.details, text, len(result.redacted)
                )
            case Unknown(kind=kind, size_bytes=size):
                yield Notice(
                    "info", f"Entry {entry.key} ({kind}, {size:,} bytes) is of a kind that this claw does not know."
                )
            case Compaction() as compaction:
                yield CompactionStarted(compaction.trigger, compaction.tokens_before)
                yield CompactionFinished(
                    entry.key,
                    compaction.tokens_before,
                    compaction.tokens_after,
                    usage=compaction.usage,
                    cost_usd=compaction.cost_usd,
                )
    yield from _unanswered(open_calls, answering)


def _unanswered(calls: dict[str, ToolCall], key: int) -> Iterator[Event]:
    """What was running when claw was killed. Empties `calls`."""
    for call in calls.values():
        yield ToolStarted(call.id, call.name, _title(call))
        yield ToolFinished(call.id, call.name, key, True, TextDetails("interrupted"), MISSING_RESULT)
    calls.clear()


def _title(call: ToolCall) -> str:
    try:
        arguments = msgspec.json.decode(call.arguments, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return ""
    return next((str(arguments[name]) for name in _SAYS_WHAT if name in arguments), "")


def user_text(user: User) -> str:
    """A user message as plain text."""
    parts: list[str] = []
    for block in user.blocks:
        match block:
            case TextBlock():
                parts.append(block.text)
            case ShellBlock():
                parts.append(f"! {block.command}\n{block.output}")
            case AttachmentBlock():
                parts.append(f"[{block.path}]")
            case _:
                parts.append("[image]")
    return "\n".join(parts)
