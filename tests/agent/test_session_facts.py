"""What a session tells by itself: files that changed on disk, a lost cache, how full the window is."""

import os

from agent.events import GaugeChanged
from agent.transcript import Reminder
from tests.fakes.session_kit import Desk, make_project


async def test_C7_a_file_that_changed_since_it_was_read_is_told_once_with_the_next_message(desk: Desk) -> None:
    make_project(desk.project, {"a.txt": "one\n", "b.txt": "two\n"})
    desk.wire.reply(tools=[("read", {"path": "a.txt"}), ("read", {"path": "b.txt"})])
    for _ in range(3):
        desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("read them")
        (desk.project / "a.txt").write_text("ONE\n")
        os.utime(desk.project / "a.txt", (5, 5))
        await talk.session.prompt("second")
        await talk.session.prompt("third")
    told = [reminder.text for reminder in desk.payloads(Reminder) if reminder.kind == "files_changed"]
    assert len(told) == 1 and "a.txt" in told[0] and "b.txt" not in told[0]
    assert "files_changed" in desk.wire.texts(desk.bodies()[2])[-1]


async def test_another_folder_costs_the_cache_once_and_says_so(desk: Desk) -> None:
    make_project(desk.project, {".git/HEAD": "ref: refs/heads/main\n", "sub/a.txt": "x"})
    desk.wire.reply("Yes.")
    desk.wire.reply("Yes.")
    desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
    async with desk.open(talk.path, cwd=desk.project / "sub") as moved:
        await moved.session.prompt("second")
        await moved.session.prompt("third")
    assert sum("cache is lost" in notice for notice in moved.notices) == 1
    assert not any("cache is lost" in notice for notice in talk.notices)


async def test_K6_the_gauge_says_how_full_the_window_is_by_the_thresholds_in_force(desk: Desk) -> None:
    desk.env |= {"CLAW_CONTEXT_WINDOW": "20000", "CLAW_DISABLE_AUTO_COMPACT": "1", "CLAW_BLOCKING_LIMIT": "15900"}
    levels: list[str] = []
    async with desk.open() as talk:
        for text in ("short", "word " * 9_500, "word " * 3_000):
            desk.wire.reply("Yes.")
            await talk.session.prompt(text)
            levels.append(talk.of(GaugeChanged)[-1].level)
    assert levels == ["calm", "warning", "full"]
