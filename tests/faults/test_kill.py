"""claw killed with SIGKILL at any moment: nothing it started lives on, files are whole, and the session goes on."""

import asyncio
import os
import random
import signal
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.transcript import Assistant, Result
from agent.window import MISSING_RESULT
from providers.types import ToolCall
from tests.fakes.claw_process import Done, environment, run, start
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk
from tests.fakes.wires import ResponsesSide

CONTENT = "0123456789abcdef" * 20_000
STEPS = 12


@contextmanager
def desk_in(folder: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        (folder / "project").mkdir(parents=True)
        yield Desk(ResponsesSide(server), folder / "project", folder / "home")


def started_by(pid: int) -> set[int]:
    """Every living process below `pid`."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if fields[0] != "Z":
                parents[int(folder.name)] = int(fields[1])
    below: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in below | {pid}} - below:
        below |= more
    return below


async def gone(pids: set[int], within_s: float = 1.0) -> bool:
    """Whether the processes end in time; a zombie has ended."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while any(map(_lives, pids)):
        if loop.time() > end:
            return False
        await asyncio.sleep(0.01)
    return True


def _lives(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def kill(process: asyncio.subprocess.Process) -> set[int]:
    """Kill claw itself and nothing else; the processes that it had started."""
    below = started_by(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    await process.communicate()
    return below


async def test_B11_killed_while_a_command_runs_it_takes_everything_along_and_goes_on(tmp_path: Path) -> None:
    with desk_in(tmp_path) as desk:
        command = "echo $$ > up; (setsid sleep 61 &) ; sleep 62 & sleep 60"
        desk.wire.reply("I wait.", tools=[("glob", {"pattern": "*"}), ("bash", {"command": command}), ("glob", {"pattern": "*"})])
        process = await start(desk, "-p", "wait", "-m", desk.model, "--mode", "auto")
        for _ in range(2000):
            below = started_by(process.pid)
            if (desk.project / "up").exists() and len(below) >= 6:
                break
            await asyncio.sleep(0.01)
        below = await kill(process)
        assert len(below) >= 6, below  # spawner, supervisor, shell, three sleeps
        assert await gone(below)

        desk.wire.reply("I check.")
        done = await run(desk, "-c", "-p", "go on")
        assert done == Done(0, "I check.\n", done.err)
        assert "2 calls were interrupted; their effects are unknown." in done.err
        assert desk.wire.refusals == []
        kinds = [(role, MISSING_RESULT in str(block)) for role, block in desk.last_flat() if role not in ("tool", "system")]
        first_call = kinds.index(("assistant", False))
        assert kinds[first_call:] == [
            ("assistant", False), ("assistant", False), ("assistant", False), ("assistant", False),
            ("result", True), ("result", True), ("result", True),
            ("user", False),
        ] or [role for role, _ in kinds[-4:]] == ["result", "result", "result", "user"]  # fmt: skip


async def _killed_somewhere(folder: Path, seed: int) -> None:
    """One run of many writes, killed at a random moment after its first request."""
    chance = random.Random(seed)
    with desk_in(folder) as desk:
        for number in range(STEPS):
            write = ("write", {"path": f"{number}.txt", "content": f"{number}\n{CONTENT}"})
            desk.wire.reply(f"Step {number}.", tools=[write, ("glob", {"pattern": "*.txt"})])
        desk.wire.reply("Done.")
        process = await start(desk, "-p", "write", "-m", desk.model, "--mode", "auto")
        await asyncio.to_thread(desk.wire.server.wait_for_requests, chance.randint(1, STEPS))
        await asyncio.sleep(chance.random() * 0.03)
        assert await gone(await kill(process))

        for number in range(STEPS):
            path = desk.project / f"{number}.txt"
            assert not path.exists() or path.read_text() == f"{number}\n{CONTENT}"
        asked = len(desk.bodies())
        desk.wire.server.discard("/v1/responses")
        desk.wire.reply("Here I am.")
        (path,) = desk.folder.glob("*.db")
        async with desk.open(path) as talk:
            entries = desk.entries()
            unanswered = _unanswered(entries[-1].payload if entries else None, entries)
            assert [text for text in talk.notices if "unknown" in text] == (
                [f"{unanswered} calls were interrupted; their effects are unknown."] if unanswered > 1 else
                ["1 call was interrupted; its effects are unknown."] if unanswered else []
            )  # fmt: skip
            assert (await talk.session.prompt("go on")).reason == "done"
        assert len(desk.bodies()) == asked + 1
        assert sum(MISSING_RESULT in str(block) for _, block in desk.last_flat()) == unanswered
        assert desk.wire.refusals == []


def _unanswered(newest: object, entries: list) -> int:  # type: ignore[type-arg]
    calls: set[str] = set()
    for entry in entries:
        match entry.payload:
            case Assistant(blocks=blocks):
                calls = {block.id for block in blocks if isinstance(block, ToolCall) and block.finished}
            case Result(call_id=call_id):
                calls.discard(call_id)
    return len(calls)


@pytest.mark.parametrize("batch", range(4))
async def test_B11_killed_at_a_random_moment_files_and_session_are_whole(tmp_path: Path, batch: int) -> None:
    await asyncio.gather(*(_killed_somewhere(tmp_path / str(seed), seed) for seed in range(3 * batch, 3 * batch + 3)))


async def test_B11_killed_in_the_middle_of_a_reply(tmp_path: Path) -> None:
    with desk_in(tmp_path) as desk:
        desk.wire.unfinished("Half of", ("write", {"path": "a", "content": "x" * 500}))
        process = await start(desk, "-p", "hi", "-m", desk.model, "--mode", "auto")
        await asyncio.to_thread(desk.wire.server.wait_for_requests, 1)
        assert await gone(await kill(process))
        (path,) = desk.folder.glob("*.db")
        desk.wire.reply("Here.")
        async with desk.open(path) as talk:
            assert talk.notices == []
            assert (await talk.session.prompt("go on")).reason == "done"
        assert desk.wire.texts(desk.bodies()[-1])[0] == "hi"


STEERING = """
import asyncio, os, sys
from pathlib import Path
from tests.fakes.session_kit import Desk, Approver
from tests.fakes.wires import ResponsesSide
from tests.fakes.model_server import ModelServer

async def main():
    with ModelServer() as server:
        desk = Desk(ResponsesSide(server), Path(sys.argv[1]), Path(sys.argv[2]))
        desk.wire.unfinished("half")
        async with desk.open() as talk:
            turn = asyncio.ensure_future(talk.session.prompt("first"))
            await talk.requested(1)
            talk.session.steer("second")
            print(talk.path, flush=True)
            await turn

asyncio.run(main())
"""


async def test_a_message_that_waited_when_claw_was_killed_is_delivered_once(tmp_path: Path) -> None:
    with desk_in(tmp_path) as desk:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", STEERING, str(desk.project), str(desk.home),
            cwd=Path(__file__).parents[2], env=environment(desk), stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        path = Path((await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip())
        while not _queue(path):
            await asyncio.sleep(0.01)
        await kill(process)
        for text in ("third", "fourth"):
            desk.wire.reply("Yes.")
            async with desk.open(path) as talk:
                await talk.session.prompt(text)
        texts = desk.wire.texts(desk.bodies()[-1])
        assert [text for text in texts if text in ("first", "second", "third", "fourth")] == [
            "first", "second", "third", "fourth",
        ]  # fmt: skip
        assert _queue(path) == []


def _queue(path: Path) -> list[str]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return [text for (text,) in connection.execute("SELECT text FROM queue")]
    finally:
        connection.close()
