"""Runs file tools as the loop does: access first, then the call, and its facts are known to the next call."""

from pathlib import Path
from typing import Any, cast

import msgspec

from agent.permissions.workspace import Workspace
from agent.processes import Spawner
from agent.tools.base import Access, Tool, ToolContext, ToolError, ToolOutput
from agent.transcript import FileFact


class Calls:
    def __init__(self, root: Path, cwd: Path | None = None) -> None:
        self.workspace = Workspace(root, cwd or root)
        self.known: dict[str, FileFact] = {}

    def context(self) -> ToolContext:
        # No file tool uses the spawner.
        return ToolContext("call", self.workspace, cast(Spawner, None), self.known, lambda text: None)

    def access(self, tool: Tool, **params: Any) -> Access:
        return tool.access(_params(tool, params), self.context())

    async def run(self, tool: Tool, **params: Any) -> ToolOutput:
        context, values = self.context(), _params(tool, params)
        tool.access(values, context)
        return await self.finish(tool, values, context)

    async def finish(self, tool: Tool, values: Any, context: ToolContext) -> ToolOutput:
        output = await tool.run(values, context)
        self.known.update({fact.path: fact for fact in output.files})
        return output

    async def refused(self, tool: Tool, **params: Any) -> str:
        """The text of the error that the call gives, and that it gives."""
        try:
            output = await self.run(tool, **params)
        except ToolError as error:
            error.text.encode()
            return error.text
        raise AssertionError(f"not refused: {output.text}")


def _params(tool: Tool, values: dict[str, Any]) -> Any:
    return msgspec.convert(values, tool.params)
