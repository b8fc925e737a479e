"""The events that draw a transcript again after a resume: the same kinds the session emitted when it happened."""

from collections.abc import Iterable, Iterator

from agent.events import (
    CompactionFinished,
    Event,
    MessageCompleted,
    ToolFinished,
    ToolStarted,
    UserMessageAdded,
)
from agent.transcript import Assistant, AttachmentBlock, Compaction, Entry, Result, ShellBlock, User
from providers.types import TextBlock


def replay(branch: Iterable[Entry]) -> Iterator[Event]:
    """One or two events for each entry that is seen on the screen, in order."""
    for entry in branch:
        match entry.payload:
            case User(synthetic=False) as user:
                yield UserMessageAdded(entry.key, user_text(user))
            case Assistant() as reply:
                yield MessageCompleted(
                    entry.key, reply.blocks, reply.usage, reply.cost_usd, reply.stop_reason, reply.interrupted
                )
            case Result() as result:
                text = "\n".join(block.text for block in result.blocks if isinstance(block, TextBlock))
                yield ToolStarted(result.call_id, result.tool, result.title)
                yield ToolFinished(result.call_id, result.tool, entry.key, result.is_error, result.details, text)
            case Compaction() as compaction:
                yield CompactionFinished(entry.key, compaction.tokens_before, compaction.tokens_after)


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
