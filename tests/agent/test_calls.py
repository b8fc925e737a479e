"""The runner of a reply's calls with tools that say when they run; gate, workspace and files are real."""

import asyncio
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec import Struct

from agent.calls import INTERRUPTED, NOT_STARTED, CallRunner
from agent.events import Event, ToolFinished, ToolProgress, ToolStarted
from agent.permissions.approval import Allow, Answer, ApprovalRequest, Approver
from agent.permissions.gate import Gate, Mode
from agent.permissions.workspace import Workspace
from agent.processes import Spawner
from agent.tools.base import Access, AccessKind, Tool, ToolContext, ToolError, ToolOutput
from agent.transcript import Entry, Result
from providers.types import TextBlock, ToolCall


class Params(Struct, frozen=True):
    name: str


class Log:
    """What runs now, and what ran beside each other."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.together: list[tuple[str, ...]] = []
        self._moved = asyncio.Event()

    def begin(self, name: str) -> None:
        self.running.append(name)
        self.together.append(tuple(self.running))
        self._moved.set()

    def end(self, name: str) -> None:
        self.running.remove(name)
        self._moved.set()

    async def until(self, begun: int, *running: str) -> None:
        """Wait until so many have begun and exactly these still run."""
        async with asyncio.timeout(40):
            while len(self.together) != begun or tuple(self.running) != running:
                self._moved.clear()
                await self._moved.wait()


class Reading:
    """Ends when it is told to, and notes what runs beside it."""

    name: ClassVar[str] = "read"
    params: ClassVar[type[Struct]] = Params
    description: ClassVar[str] = ""
    kind: ClassVar[AccessKind] = "read"

    def __init__(self, folder: Path, log: Log) -> None:
        self._folder = folder
        self._log = log
        self.looked_at: list[str] = []
        self.ending: dict[str, asyncio.Event] = {}
        self.failure: Exception | None = None

    def access(self, params: Params, context: ToolContext) -> Access:
        self.looked_at.append(params.name)
        return Access(self.kind, params.name, (self._folder / params.name,), diff="+x")

    async def run(self, params: Params, context: ToolContext) -> ToolOutput:
        self._log.begin(params.name)
        context.progress(f"{params.name} runs")
        try:
            if params.name in self.ending:
                await self.ending[params.name].wait()
            if self.failure is not None:
                raise self.failure
        finally:
            self._log.end(params.name)
        return ToolOutput(f"result of {params.name}")


class Writing(Reading):
    name: ClassVar[str] = "write"
    kind: ClassVar[AccessKind] = "edit"


class Bench:
    def __init__(self, folder: Path, mode: Mode = "auto", approver: Approver | None = None) -> None:
        self.events: list[Event] = []
        self.results: list[Result] = []
        self.kept = -1
        """How many results were on disk when somebody waited for it last."""
        self.log = Log()
        self.read, self.write = Reading(folder, self.log), Writing(folder, self.log)
        workspace = Workspace(folder, folder)
        spawner = Spawner()
        self.folder = folder
        self.tools: dict[str, Tool] = {"read": self.read, "write": self.write}
        self.runner = CallRunner(
            self.tools,
            Gate(mode, workspace, home=folder),
            approver,
            lambda call_id, progress: ToolContext(call_id, workspace, spawner, {}, progress),
            self,
            self.events.append,
        )

    def record_result(self, call: ToolCall, title: str, output: ToolOutput) -> Entry:
        result = Result(call.id, call.name, (TextBlock(output.text),), output.is_error, title, output.details)
        self.results.append(result)
        return Entry(len(self.results), None, 0, result)

    async def durable(self) -> None:
        self.kept = len(self.results)

    @property
    def order(self) -> list[str]:
        return [result.call_id for result in self.results]

    @property
    def texts(self) -> list[str]:
        return [block.text for result in self.results for block in result.blocks if isinstance(block, TextBlock)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path.resolve())


def call(tool: str, name: str, arguments: str | None = None) -> ToolCall:
    return ToolCall(name, tool, arguments if arguments is not None else f'{{"name": "{name}"}}')


async def test_reads_run_side_by_side_and_the_rest_alone_in_order(bench: Bench) -> None:
    first = asyncio.Event()
    bench.read.ending = {"a": first}
    calls = [call("read", "a"), call("read", "b"), call("write", "c"), call("read", "d")]
    running = asyncio.ensure_future(bench.runner.run(calls))
    # b ends while a still runs; nothing is recorded, and the write does not begin, before a has ended too.
    await bench.log.until(2, "a")
    assert bench.results == []
    first.set()
    await running
    assert bench.log.together == [("a",), ("a", "b"), ("c",), ("d",)]
    assert bench.order == ["a", "b", "c", "d"]
    finished = [event.call_id for event in bench.events if isinstance(event, ToolFinished)]
    assert finished == ["a", "b", "c", "d"]


async def test_a_write_is_looked_at_only_when_its_turn_has_come(bench: Bench) -> None:
    gate = asyncio.Event()
    bench.write.ending = {"a": gate}
    running = asyncio.ensure_future(bench.runner.run([call("write", "a"), call("write", "b")]))
    await bench.log.until(1, "a")
    assert bench.write.looked_at == ["a"]
    gate.set()
    await running
    assert bench.write.looked_at == ["a", "b"]


async def test_an_unknown_tool_between_reads_is_an_error_result_and_parts_nothing(bench: Bench) -> None:
    await bench.runner.run([call("read", "a"), call("fly", "b"), call("read", "c")])
    assert bench.order == ["a", "b", "c"]
    assert [result.is_error for result in bench.results] == [False, True, False]
    assert bench.texts[1] == "There is no tool 'fly'. The tools are: read, write."


async def test_T83_arguments_that_do_not_fit_are_error_results_with_the_schema(bench: Bench) -> None:
    deep = '{"name": ' + '{"a": ' * 500 + "1" + "}" * 500 + "}"
    long = '{"name": "' + "x" * 2_000_000 + '", "z": 1}'
    bad = ["", "null", "[]", "{", "5", '{"name": []}', "{}", '{"name": "a", "more": 1}', "[" * 5000, deep, long]
    await bench.runner.run([call("read", f"c{number}", text) for number, text in enumerate(bad)])
    assert bench.order == [f"c{number}" for number in range(len(bad))]
    assert all(result.is_error for result in bench.results)
    for text in bench.texts:
        assert '"required":["name"]' in text
        assert len(text) < 1_000
    assert bench.log.together == []


async def test_a_tool_that_raises_does_not_end_the_turn(bench: Bench) -> None:
    bench.write.failure = RuntimeError("broken inside")
    await bench.runner.run([call("write", "a"), call("read", "b")])
    assert bench.texts == ["write failed unexpectedly: RuntimeError: broken inside", "result of b"]
    bench.write.failure = ToolError("say it so")
    await bench.runner.run([call("write", "c")])
    assert bench.texts[-1] == "say it so"


async def test_T67_cancelled_calls_keep_their_output_and_those_behind_say_that_they_never_ran(bench: Bench) -> None:
    bench.read.ending = {"b": asyncio.Event()}
    calls = [call("read", "a"), call("read", "b"), call("write", "c")]
    running = asyncio.ensure_future(bench.runner.run(calls))
    await bench.log.until(2, "b")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert bench.order == ["a", "b", "c"]
    assert bench.texts == ["result of a", f"b runs\n{INTERRUPTED}", NOT_STARTED]
    assert bench.log.running == []
    started = [event.call_id for event in bench.events if isinstance(event, ToolStarted)]
    assert started == ["a", "b", "c"]


async def test_T67_a_call_that_was_cancelled_while_a_person_was_asked_never_ran(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def approver(request: ApprovalRequest) -> Answer:
        asked.set()
        await asyncio.Event().wait()
        return Allow()

    bench = Bench(tmp_path.resolve(), "ask", approver)
    running = asyncio.ensure_future(bench.runner.run([call("write", "a")]))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert bench.texts == [NOT_STARTED]
    assert bench.log.together == []


async def test_live_output_is_told_as_it_comes(bench: Bench) -> None:
    await bench.runner.run([call("read", "a")])
    assert [(e.call_id, e.text) for e in bench.events if isinstance(e, ToolProgress)] == [("a", "a runs")]


async def test_nothing_starts_before_the_results_it_may_rest_on_are_on_disk(bench: Bench) -> None:
    kept: list[tuple[str, int]] = []

    class Watched(Writing):
        async def run(self, params: Params, context: ToolContext) -> ToolOutput:
            kept.append((params.name, bench.kept))
            return await super().run(params, context)

    bench.tools["write"] = Watched(bench.folder, bench.log)
    await bench.runner.run([call("read", "a"), call("read", "b"), call("write", "c"), call("write", "d")])
    assert kept == [("c", 2), ("d", 3)]
