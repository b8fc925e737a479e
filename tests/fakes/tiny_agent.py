"""The least that can play a conversation with a provider: four tools over real files, no gate, no limits, no record.

For tests of scripted conversations that must not depend on the real loop.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from providers.assembler import Assembler
from providers.base import ModelRequest, Provider
from providers.types import (
    AssistantMessage,
    Message,
    PromptSection,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)

Refuse = Callable[[str, dict[str, Any]], str | None]
_TOOLS = tuple(ToolSpec(name, "", {"type": "object"}) for name in ("read", "write", "edit", "bash"))


class TinyAgent:
    def __init__(self, provider: Provider, folder: Path, refuse: Refuse = lambda name, arguments: None) -> None:
        self.provider = provider
        self.folder = folder
        self.refuse = refuse
        self.messages: list[Message] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.texts: list[str] = []

    def request(self, extra: Sequence[Message] = ()) -> ModelRequest:
        system = (PromptSection("base", "You are claw.", True),)
        return ModelRequest("demo", system, _TOOLS, self.messages, 0, 0, 4096, extra=tuple(extra))

    async def ask(self, request: ModelRequest) -> Assembler:
        assembler = Assembler()
        async for event in self.provider.stream(request):
            assembler.feed(event)
        return assembler

    async def prompt(self, text: str, max_steps: int = 40) -> str:
        """Play one turn; the last reply's text."""
        self.messages.append(UserMessage((TextBlock(text),)))
        for _ in range(max_steps):
            if (final := await self.step()) is not None:
                return final
        raise AssertionError(f"no end after {max_steps} steps")

    async def step(self) -> str | None:
        """One reply and its tools; the text of a reply without calls."""
        blocks = (await self.ask(self.request())).blocks()
        self.messages.append(AssistantMessage(blocks))
        text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
        self.texts.append(text)
        calls = [block for block in blocks if isinstance(block, ToolCall)]
        for call in calls:
            arguments = msgspec.json.decode(call.arguments, type=dict[str, Any])
            self.calls.append((call.name, arguments))
            output, is_error = self._run(call.name, arguments)
            self.messages.append(ToolResultMessage(call.id, (TextBlock(output),), is_error))
        return None if calls else text

    def _run(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        if (reason := self.refuse(name, arguments)) is not None:
            return reason, True
        if name == "bash":
            return self._bash(arguments["command"])
        path = self.folder / arguments["path"]
        if name == "read":
            start, limit = arguments.get("offset", 1), arguments.get("limit", 2000)
            lines = path.read_text().split("\n")[start - 1 : start - 1 + limit]
            return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, start)), False
        if name == "write":
            path.write_text(arguments["content"])
            return "Wrote the file.", False
        text = path.read_text()
        for edit in arguments["edits"]:
            if text.count(edit["old"]) != 1:
                return "The text to replace was not found.", True
            text = text.replace(edit["old"], edit["new"])
        path.write_text(text)
        return "Edited the file.", False

    def _bash(self, command: str) -> tuple[str, bool]:
        argv = [sys.executable if word == "python3" else word for word in command.split()]
        done = subprocess.run(argv, cwd=self.folder, capture_output=True, text=True, timeout=50)
        return f"{done.stdout}{done.stderr}\n[exit code {done.returncode}]", done.returncode != 0
