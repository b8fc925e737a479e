"""Runs the tool calls of one reply: checks, asks the gate, runs, records.

Calls that only read and follow each other run side by side; everything else runs alone and in order. Results are recorded
in call order. A call never kills the turn: bad arguments, refusals and exceptions become error results. When the turn is
interrupted every call still gets its result, with the output it had so far.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agent.events import Emit, Notice, ToolFinished, ToolProgress, ToolStarted
from agent.permissions.approval import Approver
from agent.permissions.gate import Allowed, Gate
from agent.results import error_output
from agent.tools.base import Access, Tool, ToolContext, ToolError, ToolOutput, parse_arguments
from agent.tools.details import RefusedDetails, TextDetails
from agent.tools.truncate import newest
from agent.transcript import Entry, Result
from providers.types import TextBlock, ToolCall

INTERRUPTED = "[Interrupted by the user before it ended; its effects may be partial.]"
NOT_STARTED = "[Not run: the turn ended before this call started.]"
_PARTIAL_CHARS = 8_000


class Log(Protocol):
    """Where results are recorded."""

    def record_result(self, call: ToolCall, title: str, output: ToolOutput) -> Entry:
        """Append the result entry, and say which it became."""
        ...

    async def durable(self) -> None:
        """Wait until everything that was recorded is on disk."""
        ...


MakeContext = Callable[[str, Callable[[str], None]], ToolContext]
WithoutSecrets = Callable[[ToolOutput], Awaitable[ToolOutput]]
"""What an output is when its secrets are taken out, which may take a moment: recording it does that too, but at once."""


class _Prepared:
    """A call on its way: either ready to run, or with its outcome already known."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.tool: Tool | None = None
        self.params: Any = None
        self.access: Access | None = None
        self.context: ToolContext | None = None
        self.outcome: ToolOutput | None = None
        self.partial = ""
        self.shown = False
        """Whether its start was told."""
        self.ran = False

    @property
    def title(self) -> str:
        return self.access.title if self.access is not None else ""

    @property
    def side_by_side(self) -> bool:
        return self.access is None or self.access.kind in ("read", "record")


class CallRunner:
    """Runs calls for one session. Nothing starts before what it rests on is on disk."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        gate: Gate,
        approver: Approver | None,
        make_context: MakeContext,
        log: Log,
        emit: Emit,
        without_secrets: WithoutSecrets | None = None,
    ) -> None:
        """`approver` is None where nobody can be asked: then what would ask is refused."""
        self._without_secrets = without_secrets
        self._tools = tools
        self._gate = gate
        self._approver = approver
        self._make_context = make_context
        self._log = log
        self._emit = emit
        self._touched: list[Path] = []

    def take_touched(self) -> list[Path]:
        """The real paths that calls have read, searched or changed since this was asked last, in call order."""
        touched, self._touched = self._touched, []
        return touched

    async def run(self, calls: Sequence[ToolCall]) -> None:
        waiting = [_Prepared(call) for call in calls]
        try:
            while waiting:
                group = self._next_group(waiting)
                await self._run_group(group)
                del waiting[: len(group)]
        except BaseException:
            for item in waiting:
                self._finish(item, item.outcome or _interrupted(item))
            raise

    def refuse(self, calls: Sequence[ToolCall], text: str) -> None:
        """Give each call this error as its result without running anything."""
        for call in calls:
            item = _Prepared(call)
            self._start(item)
            self._finish(item, error_output(text))

    def _next_group(self, waiting: Sequence[_Prepared]) -> list[_Prepared]:
        """The calls at the front that may run together; looks at an edit's file only when its turn has come."""
        group: list[_Prepared] = []
        for item in waiting:
            tool = self._tools.get(item.call.name)
            if group and tool is not None and not _reads(tool):
                break
            self._prepare(item)
            if group and not item.side_by_side:
                break
            group.append(item)
            if not item.side_by_side:
                break
        return group

    def _prepare(self, item: _Prepared) -> None:
        call = item.call
        item.tool = self._tools.get(call.name)
        if item.tool is None:
            known = ", ".join(sorted(self._tools))
            item.outcome = error_output(f"There is no tool {call.name!r}. The tools are: {known}.")
            return

        def progress(text: str) -> None:
            item.partial = newest(item.partial + text, _PARTIAL_CHARS)
            self._emit(ToolProgress(call.id, text))

        item.context = self._make_context(call.id, progress)
        try:
            item.params = parse_arguments(item.tool, call.arguments)
            item.access = item.tool.access(item.params, item.context)
        except ToolError as error:
            item.outcome = ToolOutput(error.text, error.details, is_error=True)
        except Exception as error:
            item.outcome = error_output(_crash(call.name, error))

    async def _run_group(self, group: Sequence[_Prepared]) -> None:
        for item in group:
            self._start(item)
        for item in group:
            if item.outcome is None:
                await self._authorize(item)
        await self._log.durable()
        running = [asyncio.ensure_future(self._execute(item)) for item in group if item.outcome is None]
        try:
            if running:
                await asyncio.gather(*running)
        except BaseException:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            raise
        for item in group:
            self._finish(item, item.outcome or error_output(INTERRUPTED))

    async def _authorize(self, item: _Prepared) -> None:
        assert item.access is not None
        answer = await self._gate.authorize(item.call, item.access, self._approver)
        if isinstance(answer, Allowed):
            if answer.note:
                self._emit(Notice("warning", answer.note))
        else:
            why = answer.why.strip() or "refused"
            item.outcome = ToolOutput(answer.reason, RefusedDetails(why), is_error=True)

    async def _execute(self, item: _Prepared) -> None:
        assert item.tool is not None and item.context is not None
        item.ran = True
        try:
            item.outcome = await item.tool.run(item.params, item.context)
        except ToolError as error:
            item.outcome = ToolOutput(error.text, error.details, is_error=True)
        except Exception as error:
            item.outcome = error_output(_crash(item.call.name, error))
        if self._without_secrets is not None:
            item.outcome = await self._without_secrets(item.outcome)

    def _start(self, item: _Prepared) -> None:
        item.shown = True
        self._emit(ToolStarted(item.call.id, item.call.name, item.title))

    def _finish(self, item: _Prepared, output: ToolOutput) -> None:
        if not item.shown:
            self._start(item)
        if item.ran and not output.is_error and item.access is not None:
            self._touched += item.access.paths
        entry = self._log.record_result(item.call, item.title, output)
        result = entry.payload
        assert isinstance(result, Result)
        text = "\n".join(block.text for block in result.blocks if isinstance(block, TextBlock))
        self._emit(
            ToolFinished(
                item.call.id, item.call.name, entry.key, result.is_error, result.details, text, len(result.redacted)
            )
        )


def _reads(tool: Tool) -> bool:
    return tool.name in ("read", "glob", "grep", "recall")


def _interrupted(item: _Prepared) -> ToolOutput:
    if not item.ran:
        return ToolOutput(NOT_STARTED, TextDetails("not run"), is_error=True)
    text = f"{item.partial.rstrip()}\n{INTERRUPTED}" if item.partial.strip() else INTERRUPTED
    return ToolOutput(text, TextDetails("interrupted", item.partial), is_error=True)


def _crash(name: str, error: Exception) -> str:
    return f"{name} failed unexpectedly: {type(error).__name__}: {error}"
