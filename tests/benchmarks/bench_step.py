"""From the end of a reply to the next request, and from Enter to the request, at 10 and at 10,000 entries.

The real agent with the real SDK clients; the server is a process of its own. A step is one tiny read: what is measured
begins when the reply is complete and ends when the server has the whole next request.
"""

import asyncio
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from agent.events import Event, MessageCompleted, StepStarted, ToolFinished, UserMessageAdded
from agent.store import sessions
from agent.store.base import SessionMeta
from agent.store.session_file import SessionFile
from agent.transcript import Assistant, Entry, Payload, Result, User
from providers.types import TextBlock, ToolCall, Usage
from tests.benchmarks.kit import PYTHON, ROOT, compile_all, show
from tests.fakes.anthropic_wire import MESSAGES, MessageStream
from tests.fakes.model_server import ModelServer, RecordedRequest, Reply
from tests.fakes.responses_wire import RESPONSES, ResponseStream
from tests.fakes.session_kit import Desk, Talk
from tests.fakes.wires import AnthropicSide, ResponsesSide

STEPS = 100
PROMPTS = 30
_ORDER = re.compile(rb"read (\d+) times")
_READ = {"path": "a.txt"}


def main() -> bool:
    compile_all()
    results = [asyncio.run(_measure(side)) for side in (AnthropicSide, ResponsesSide)]
    return all(results)


async def _measure(side: type[AnthropicSide] | type[ResponsesSide]) -> bool:
    medians: dict[int, float] = {}
    good = True
    for entries in (10, 10_000):
        with tempfile.TemporaryDirectory() as folder:
            path, desk = await _long_session(side, Path(folder), entries)
            steps, prompts, parts = await _run(desk, path)
        name = f"{desk.wire.provider}, {entries:,} entries"
        medians[entries] = statistics.median(steps)
        good &= show(f"{name}: end of a reply to the next request", medians[entries] * 1000, "ms", 5, _shown(parts))
        good &= show(f"{name}: Enter to the request", statistics.median(prompts) * 1000, "ms", 10)
    show(f"{side.provider}: 10,000 entries against 10", medians[10_000] / medians[10], "x")
    return good


def _shown(parts: dict[str, list[float]]) -> str:
    return ", ".join(f"{name} {statistics.median(values) * 1000:.2f}" for name, values in parts.items())


async def _long_session(
    side: type[AnthropicSide] | type[ResponsesSide], folder: Path, entries: int
) -> tuple[Path, Desk]:
    """A session with so many entries, made from a real one."""
    with ModelServer() as server:
        desk = Desk(side(server), folder / "project", folder / "home", window_tokens=50_000_000)
        desk.project.mkdir()
        (desk.project / "a.txt").write_text("tiny\n")
        desk.wire.reply(tools=[("read", _READ)])
        desk.wire.reply("Read.")
        async with desk.open() as talk:
            await talk.session.prompt("read")
    loaded = sessions.load(talk.path)
    payloads = list(_repeated([entry.payload for entry in loaded.entries], entries))
    meta = SessionMeta(sessions.new_id(), loaded.meta.project, loaded.meta.created_ms)
    store = SessionFile(desk.folder / f"{meta.id}.db", meta)
    store.append([Entry(key, key - 1 or None, key, payload) for key, payload in enumerate(payloads, 1)])
    store.close()
    return store.path, desk


def _repeated(payloads: Sequence[Payload], entries: int) -> Iterator[Payload]:
    yield from payloads
    reply, result = (next(p for p in payloads if isinstance(p, kind)) for kind in (Assistant, Result))
    assert isinstance(reply, Assistant) and isinstance(result, Result)
    for number in range(max(0, entries - len(payloads)) // 4):
        call = ToolCall(f"copy_{number}", "read", '{"path": "a.txt"}')
        yield User((TextBlock("read again"),))
        yield replace(reply, blocks=(call,), usage=Usage())
        yield replace(result, call_id=call.id)
        yield replace(reply, blocks=(TextBlock("Read."),), usage=Usage())


class Timed(Talk):
    """Notes when each event was told, by the monotonic clock."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.times: list[tuple[Event, float]] = []

    def take(self, event: Event) -> None:
        self.times.append((event, time.monotonic()))
        super().take(event)

    def at(self, kind: type[Event]) -> list[float]:
        return [at for event, at in self.times if isinstance(event, kind)]


async def _run(desk: Desk, path: Path) -> tuple[list[float], list[float], dict[str, list[float]]]:
    """Seconds of each step and of each prompt, and of the parts of a step."""
    server = await asyncio.to_thread(_start_server)
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    old = desk.wire.server.url
    desk.env.update({name: value.replace(old, url) for name, value in desk.env.items()})
    async with desk.open(path, listener=Timed) as talk:
        assert isinstance(talk, Timed)
        await talk.session.prompt("warm up")
        await asyncio.sleep(1)  # what the first prompt loads beside it is there
        for _ in range(PROMPTS):
            await talk.session.prompt("again")
        await talk.session.prompt(f"read {STEPS} times")
    lines, _ = server.communicate()
    arrived = [float(line) for line in lines.split()]
    entered = talk.at(UserMessageAdded)[1 : 1 + PROMPTS]
    prompts = [request - start for request, start in zip(arrived[1 : 1 + PROMPTS], entered, strict=True)]
    done, prepared, requests = (
        times[1 + PROMPTS :] for times in (talk.at(MessageCompleted), talk.at(StepStarted), arrived)
    )
    finished = talk.at(ToolFinished)
    steps = [requests[n + 1] - done[n] for n in range(STEPS)]
    parts = {
        "the tool and its record": [finished[n] - done[n] for n in range(STEPS)],
        "preparing": [prepared[n + 1] - finished[n] for n in range(STEPS)],
        "encoding and sending": [requests[n + 1] - prepared[n + 1] for n in range(STEPS)],
    }
    return steps, prompts, parts


# --------------------------------------------------------------------------- the server's process


def _start_server() -> "subprocess.Popen[str]":
    argv = [PYTHON, "-m", "tests.benchmarks.bench_step", "serve"]
    return subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def serve() -> None:
    """Says its address, then when each request had arrived. Ends with its standard input."""
    with ModelServer() as server:
        server.always(MESSAGES, _answer)
        server.always(RESPONSES, _answer)
        print(server.url, flush=True)
        sys.stdin.read()


def _answer(request: RecordedRequest) -> Reply:
    print(request.arrived_s, flush=True)
    order = next(iter(list(_ORDER.finditer(request.body))[-1:]), None)
    results = b"tool_use_id" if request.path == MESSAGES else b"function_call_output"
    reads = order is not None and request.body.count(results, order.end()) < int(order[1])
    if request.path == MESSAGES:
        stream = MessageStream(usage={"input_tokens": 1000, "output_tokens": 5})
        return (stream.tool("read", _READ).stop("tool_use") if reads else stream.text("Yes.").stop()).reply_at_once()
    answer = ResponseStream(usage={"input_tokens": 1000, "output_tokens": 5})
    return (answer.tool("read", _READ) if reads else answer.text("Yes.")).complete().reply_at_once()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        raise SystemExit(0 if main() else 1)
