"""claw killed with SIGKILL at any moment: nothing it started lives on, files are whole, and the session goes on."""

import asyncio
import os
import random
import signal
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.transcript import Assistant, Entry, Result
from agent.window import MISSING_RESULT
from providers.types import ToolCall
from tests.agent.processes.marks import children_of, comes_true, marked, new_mark, runs
from tests.fakes.claw_process import environment, run, start
from tests.fakes.kill_points import missing
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk
from tests.fakes.wires import ResponsesSide
from tests.faults.crash_runs import crash, told, unharmed
from tests.faults.crash_scripts import COMPACTIONS, SCRIPTS

CONTENT = "0123456789abcdef\n" * 1_000
STEPS = 6
at_calls = pytest.mark.skipif(bool(missing()), reason=missing())


@contextmanager
def desk_in(folder: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        (folder / "project").mkdir(parents=True)
        yield Desk(ResponsesSide(server), folder / "project", folder / "home")


async def kill(claw: asyncio.subprocess.Process) -> None:
    """Kill claw alone, and see it and its helpers end."""
    pid = claw.pid
    below = children_of(pid)
    claw.kill()
    await claw.communicate()
    # Helpers that hold nothing of the user's may first finish loading.
    ended = await comes_true(lambda: not Path(f"/proc/{pid}").exists() and not any(map(runs, below)), 5.0)
    assert ended, [
        Path(f"/proc/{each}/cmdline").read_bytes() for each in (pid, *below) if Path(f"/proc/{each}").exists()
    ]


async def test_B11_killed_while_a_command_runs_it_takes_everything_along_and_goes_on(tmp_path: Path) -> None:
    marks = [new_mark() for _ in range(3)]
    command = f"(setsid sleep {marks[0]} &) ; sleep {marks[1]} & sleep {marks[2]}"
    with desk_in(tmp_path) as desk:
        desk.wire.reply(
            "I wait.", tools=[("glob", {"pattern": "*"}), ("bash", {"command": command}), ("glob", {"pattern": "*"})]
        )
        process = await start(desk, "-p", "wait", "-m", desk.model, "--mode", "auto")
        assert await comes_true(lambda: all(map(marked, marks)), 30.0)
        os.kill(process.pid, signal.SIGKILL)
        assert await comes_true(lambda: not any(map(marked, marks)), 1.0)
        await process.communicate()

        desk.wire.reply("I check.")
        done = await run(desk, "-c", "-p", "go on")
        assert (done.code, done.out) == (0, "I check.\n")
        assert "2 calls were interrupted; their effects are unknown." in done.err
        assert desk.wire.refusals == []
        results = [MISSING_RESULT in str(block) for role, block in desk.last_flat() if role == "result"]
        assert results == [False, True, True]
        assert [role for role, _ in desk.last_flat()][-4:] == ["result", "result", "result", "user"]


async def killed_somewhere(folder: Path, seed: int) -> None:
    """One run of many writes, killed at a random moment after a random request."""
    chance = random.Random(seed)
    with desk_in(folder) as desk:
        for number in range(STEPS):
            write = ("write", {"path": f"{number}.txt", "content": f"{number}\n{CONTENT}"})
            desk.wire.reply(f"Step {number}.", tools=[("glob", {"pattern": "*.txt"}), write])
        desk.wire.unfinished("I am do")
        claw = await start(desk, "-p", "write", "-m", desk.model, "--mode", "auto")
        await asyncio.to_thread(desk.wire.server.wait_for_requests, chance.randint(1, STEPS), 30.0)
        await asyncio.sleep(chance.random() * 0.04)
        await kill(claw)

        for path in desk.project.glob("*.txt"):
            assert path.read_text() == f"{path.stem}\n{CONTENT}"
        desk.wire.otherwise(lambda body: "Here I am.")
        desk.wire.server.forget("/v1/responses")
        entries = desk.entries()
        unanswered = open_calls(entries)
        async with desk.open(next(desk.folder.glob("*.db"))) as talk:
            assert any("unknown" in text for text in talk.notices) == bool(unanswered)
            ended = await talk.session.prompt("go on")
            assert ended.reason == "done", ended
        assert sum(MISSING_RESULT in str(block) for _, block in desk.last_flat()) == unanswered
        assert desk.entries()[: len(entries)] == entries


def open_calls(entries: Sequence[Entry]) -> int:
    """How many calls of the newest reply have no result."""
    calls: set[str] = set()
    for entry in entries:
        match entry.payload:
            case Assistant(blocks=blocks):
                calls = {block.id for block in blocks if isinstance(block, ToolCall) and block.finished}
            case Result(call_id=call_id):
                calls.discard(call_id)
    return len(calls)


async def test_B11_killed_at_twelve_random_moments_files_and_session_are_whole(tmp_path: Path) -> None:
    for batch in range(4):
        seeds = range(3 * batch, 3 * batch + 3)
        await asyncio.gather(*(killed_somewhere(tmp_path / str(seed), seed) for seed in seeds))


async def test_B11_killed_in_the_middle_of_a_reply(tmp_path: Path) -> None:
    with desk_in(tmp_path) as desk:
        desk.wire.unfinished("Half of", ("write", {"path": "a", "content": "x" * 500}))
        claw = await start(desk, "-p", "hi", "-m", desk.model, "--mode", "auto")
        await asyncio.to_thread(desk.wire.server.wait_for_requests, 1, 30.0)
        await kill(claw)
        desk.wire.reply("Here.")
        async with desk.open(next(desk.folder.glob("*.db"))) as talk:
            assert talk.notices == []
            assert (await talk.session.prompt("go on")).reason == "done"
        assert desk.wire.texts(desk.bodies()[-1])[0] == "hi"


STEERING = """
import asyncio, sys
from pathlib import Path
from tests.fakes.kill_points import missing
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk
from tests.fakes.wires import ResponsesSide
from tests.faults.crash_runs import crash, told, unharmed
from tests.faults.crash_scripts import COMPACTIONS, SCRIPTS

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
        assert await comes_true(lambda: waiting(path) == ["second"])
        await kill(process)
        for text in ("third", "fourth"):
            desk.wire.reply("Yes.")
            async with desk.open(path) as talk:
                await talk.session.prompt(text)
        texts = desk.wire.texts(desk.bodies()[-1])
        said = ["first", "second", "third", "fourth"]
        assert [text for text in texts if text in said] == said
        assert waiting(path) == []


def waiting(path: Path) -> list[str]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:  # it is written meanwhile
        return [text for (text,) in connection.execute("SELECT text FROM queue ORDER BY id")]
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()


@at_calls
async def test_T91_killed_before_any_call_nothing_acknowledged_is_lost_and_it_goes_on() -> None:
    crashes = await crash(["plain", "editing"], 4, seed=1)
    assert not told(crashes), told(crashes)
    assert sum(bool(each.ended.killed_at) for each in crashes) >= 6


@at_calls
async def test_T88_killed_at_any_call_of_a_compaction_the_history_is_usable() -> None:
    crashes = await crash(["by_hand"], 3, seed=2)
    assert not told(crashes), told(crashes)


@at_calls
async def test_what_is_lost_or_torn_is_noticed() -> None:
    async with unharmed("plain") as (place, problems):
        (path,) = place.sessions.glob("*.db")
        connection = sqlite3.connect(path)
        connection.execute("DELETE FROM entry WHERE key = (SELECT MAX(key) FROM entry WHERE kind = 'result')")
        connection.commit()
        connection.close()
        (place.project / "note_2.txt").write_text("note 2\n")
        (place.project / ".claw-0123456789abcdef.tmp").touch()
        found = "; ".join(await problems())
        for told_of in ("cannot be made again from the disk", "note_2.txt is torn", "stray after the next start"):
            assert told_of in found


@pytest.mark.slow
@at_calls
async def test_T91_every_script_and_compaction_killed_at_many_calls() -> None:
    crashes = await crash([*SCRIPTS, *COMPACTIONS], 12, seed=3)
    assert not told(crashes), told(crashes)
