"""Plays one fault through a real session, its recovery and a resume, and says what was not as it has to be.

A session that has worked before meets the fault; then the user goes on, with tools; then the session is opened from its
file and goes on again. Every request is judged by the wire's strict rules.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from agent.events import ToolFinished
from agent.retry import RetryPolicy
from providers.types import Usage
from tests.fakes.connection_faults import CONNECTION_FAULTS
from tests.fakes.fault import COUNT_FILE, NEVER_RUN, PRIMED_ID, Fault
from tests.fakes.model_server import ModelServer
from tests.fakes.pens import Pens
from tests.fakes.reply_faults import REPLY_FAULTS
from tests.fakes.session_kit import Desk, Talk
from tests.fakes.wires import KEY, AnthropicSide, ChatSide, ResponsesSide, Wire

FAULTS: tuple[Fault, ...] = (*CONNECTION_FAULTS, *REPLY_FAULTS)
SIDES: dict[str, type[AnthropicSide] | type[ResponsesSide] | type[ChatSide]] = {
    "anthropic": AnthropicSide,
    "responses": ResponsesSide,
    "chat": ChatSide,
}
PATIENT = RetryPolicy(base_delay_s=0.001, idle_timeout_s=60.0, progress_timeout_s=90.0)
SHORT = RetryPolicy(base_delay_s=0.001, idle_timeout_s=1.0, progress_timeout_s=2.0)
"""So that silence is noticed soon, and a busy machine is not taken for it."""
_HANG_S = 60.0
_LONG_TURNS = 4


async def play(fault: Fault, api: str, folder: Path) -> list[str]:
    """What went wrong; nothing: the fault had the reaction that it has to have. `folder` must be empty."""
    problems: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: problems.append(f"unhandled: {context}"))
    try:
        with ModelServer() as server:
            wire = SIDES[api](server)
            await asyncio.wait_for(_play(fault, wire, folder, problems), _HANG_S)
    except TimeoutError:
        problems.append(f"hung for {_HANG_S:g} s")
    except Exception as error:
        problems.append(f"{type(error).__name__}: {error}"[:600])
    finally:
        loop.set_exception_handler(None)
    return [f"{api}, {fault.name}: {problem}" for problem in problems]


async def _play(fault: Fault, wire: Wire, folder: Path, problems: list[str]) -> None:
    project = folder / "project"
    project.mkdir()
    (project / COUNT_FILE).write_text(NEVER_RUN)
    desk = Desk(wire, project, folder / "home", window_tokens=4_000_000)
    async with _opened(desk, fault) as talk:
        await _prime(talk, fault)
        pens = Pens(wire)
        replies = list(fault.play(pens))
        pens.script(*replies)
        asked = len(wire.requests)
        ended = await talk.session.prompt("Do it.")
        told = "\n".join([ended.error, *talk.notices, talk.answer])
        _expect(problems, "ended", ended.reason, fault.ends)
        _expect(problems, "requests", len(wire.requests) - asked, len(replies))
        _expect(problems, "runs", runs(project), fault.ran)
        if fault.says not in told:
            problems.append(f"told {told[:300]!r}, not {fault.says!r}")
        if fault.ends != "done" and not ended.error:
            problems.append("ended without a word")
        if KEY in told or "Traceback" in told:
            problems.append(f"told what must not be told: {told[:300]!r}")
        for event in talk.events:
            try:
                msgspec.json.encode(event)
            except UnicodeEncodeError:
                problems.append(f"an event that no reader can write down: {event!r:.200}")
        server_left = wire.server.queued(pens.path)
        _expect(problems, "answers left", server_left, 0)
        wire.server.forget(pens.path)
        await _go_on(talk, problems)
    async with _opened(desk, fault, talk.path) as later:
        await _go_on(later, problems)
    _expect(problems, "runs after the resume", runs(project), fault.ran)


@asynccontextmanager
async def _opened(desk: Desk, fault: Fault, path: Path | None = None) -> AsyncIterator[Talk]:
    async with desk.open(path, retry_policy=SHORT if fault.stalls else PATIENT) as talk:
        yield talk


async def _prime(talk: Talk, fault: Fault) -> None:
    wire = talk.desk.wire
    wire.reply(thinking="A look first.", tools=[("read", {"path": COUNT_FILE}, PRIMED_ID)], usage=Usage(100, 0, 0, 20))
    wire.reply("It is a file.", usage=Usage(100, 0, 0, 20))
    await talk.session.prompt("What is there?")
    for turn in range(_LONG_TURNS if fault.long else 0):
        wire.reply(" ".join(f"answer{turn}-{number}" for number in range(190)))
        await talk.session.prompt(" ".join(f"question{turn}-{number}" for number in range(45)))


async def _go_on(talk: Talk, problems: list[str]) -> None:
    """A turn with a tool, and one without."""
    wire = talk.desk.wire
    wire.reply(thinking="Again.", tools=[("read", {"path": COUNT_FILE})])
    wire.reply("I am back.")
    ended = await talk.session.prompt("Go on.")
    _expect(problems, "the next turn", ended.reason, "done")
    _expect(problems, "the next answer", talk.answer, "I am back.")
    results = talk.of(ToolFinished)
    if not results or results[-1].is_error:
        problems.append("the next call failed")


def runs(project: Path) -> int:
    """How often the edit was done."""
    return (project / COUNT_FILE).read_text().count("+1")


def _expect(problems: list[str], what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        problems.append(f"{what}: {found!r}, not {wanted!r}")
