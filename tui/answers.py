"""What the model said, taken out of a session's past for the clipboard: its answers, the newest first, and their code blocks."""

import re
from collections.abc import Iterable

from msgspec import Struct

from agent.events import Event, MessageCompleted
from providers.types import TextBlock

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$")


class CodeBlock(Struct, frozen=True):
    """Foreign text."""

    language: str
    text: str


def answers(past: Iterable[Event]) -> list[str]:
    """The texts of the model's messages, the newest first; messages without text are none."""
    found = [_text(event) for event in past if isinstance(event, MessageCompleted)]
    return [text for text in reversed(found) if text.strip()]


def _text(event: MessageCompleted) -> str:
    return "\n\n".join(block.text for block in event.blocks if isinstance(block, TextBlock))


def code_blocks(text: str) -> list[CodeBlock]:
    """The fenced blocks of a Markdown text, in order; one that is never closed reaches to the end."""
    blocks: list[CodeBlock] = []
    fence, language, lines = "", "", list[str]()
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if not fence:
            if match is not None:
                fence, language, lines = match[1], match[2].strip(), []
        elif match is not None and match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2].strip():
            blocks.append(CodeBlock(language, "\n".join(lines)))
            fence = ""
        else:
            lines.append(line)
    if fence:
        blocks.append(CodeBlock(language, "\n".join(lines)))
    return blocks
