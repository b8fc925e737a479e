"""The hooks around a compaction: real commands through a real spawner, and through a whole session."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.events import Event, Notice
from agent.hooks import Agreed, CompactionHooks, HookFacts, HookRefused
from agent.processes import Spawner

FACTS = HookFacts("20261130-120000-abcd", "auto", 4711)


@asynccontextmanager
async def hooks(
    cwd: Path, *before: str, after: tuple[str, ...] = (), timeout_s: float = 20.0
) -> AsyncIterator[tuple[CompactionHooks, list[Event]]]:
    events: list[Event] = []
    spawner = Spawner()
    try:
        yield CompactionHooks(spawner, cwd, events.append, before, after, timeout_s), events
    finally:
        await spawner.aclose()


async def test_C4b_a_hook_gets_json_and_adds_what_it_says_to_the_focus(tmp_path: Path) -> None:
    async with hooks(tmp_path, "cat >got.json; echo 'look after'; echo \"the 'parser'\"", "echo more") as (
        made,
        events,
    ):
        assert await made.before(FACTS) == Agreed("look after\nthe 'parser'\n\nmore")
    told = json.loads((tmp_path / "got.json").read_text())
    assert (told["session_id"], told["trigger"], told["tokens"]) == (FACTS.session_id, "auto", 4711)
    assert told["event"] == "PreCompact" and events == []


async def test_C4b_exit_2_refuses_with_standard_error_and_no_later_hook_runs(tmp_path: Path) -> None:
    async with hooks(tmp_path, "echo noise; echo 'not now' >&2; exit 2", "touch ran") as (made, events):
        assert await made.before(FACTS) == HookRefused("not now")
    assert not (tmp_path / "ran").exists() and events == []


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("echo broken >&2; exit 1", "exit code 1): broken"),
        ("kill -9 $$", "did not end by itself"),
        ("no-such-program", "127"),
        ("seq 900 >&2; exit 1", "exit code 1): 1 2 3 "),
        ("yes", "failed"),
        ("yes >&2", "failed"),
    ],
)
async def test_C4b_any_other_failure_warns_and_goes_on(tmp_path: Path, command: str, says: str) -> None:
    async with hooks(tmp_path, command, "echo still", after=(command,)) as (made, events):
        assert await made.before(FACTS) == Agreed("still")
        await made.after(FACTS)
    assert len(events) == 2
    assert all(isinstance(event, Notice) and says in event.text and event.level == "warning" for event in events)
    assert all(isinstance(event, Notice) and len(event.text) < 600 and "\n" not in event.text for event in events)


async def test_C4b_a_long_reason_of_a_refusal_is_one_line_of_bounded_length(tmp_path: Path) -> None:
    async with hooks(tmp_path, "seq 9000 >&2; exit 2") as (made, _):
        answer = await made.before(FACTS)
    assert isinstance(answer, HookRefused) and answer.reason.startswith("1 2 3 ") and len(answer.reason) <= 400


async def test_C4b_one_that_hangs_is_ended_at_its_time_limit_and_a_cancellation_goes_through(tmp_path: Path) -> None:
    async with hooks(tmp_path, "echo early; sleep 60", timeout_s=0.2) as (made, events):
        assert await made.before(FACTS) == Agreed("")
        assert isinstance(events[0], Notice) and "longer than 0.2 s" in events[0].text
    async with hooks(tmp_path, "touch started; sleep 60") as (made, _):
        running = asyncio.ensure_future(made.before(FACTS))
        while not (tmp_path / "started").exists():  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
