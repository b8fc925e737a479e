"""What a session tells by itself: files that changed on disk, a lost cache, how full the window is."""

import os
from pathlib import Path

from agent.events import GaugeChanged, QueueChanged
from agent.transcript import Reminder, Setting
from tests.agent.test_session_compaction import SUMMARY
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk, kinds, make_project
from tests.fakes.wires import AnthropicSide


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


async def test_before_the_first_message_the_gauge_shows_what_it_will_be_sent_with_and_nothing_is_written(
    one_desk: Desk,
) -> None:
    (one_desk.project / "AGENTS.md").write_text("Use tabs. " * 200)
    one_desk.wire.reply("Yes.")
    async with one_desk.open() as talk:
        talk.session.announce()
        gauge = talk.of(GaugeChanged)[-1]
        parts = talk.session.parts()
        assert gauge.is_estimate and gauge.used_tokens == sum(part.tokens for part in parts)
        assert {part.kind for part in parts} == {"system", "tools", "instructions"}
        assert sum(part.tokens for part in parts if part.kind == "instructions") > 300
        assert not one_desk.folder.exists()
        shown = len(talk.of(GaugeChanged))
        await talk.session.prompt("hi")
        first = talk.of(GaugeChanged)[shown]
    assert 0 < first.used_tokens - gauge.used_tokens < 60


async def test_K5_an_overflow_tells_the_context_window_and_it_stays_known(
    model_server: ModelServer, project: Path, tmp_path: Path
) -> None:
    """The server says 200,000; the configuration believed 400,000."""
    desk = Desk(AnthropicSide(model_server), project, tmp_path / "home")
    file = desk.home / "config" / "config.toml"
    file.write_text(file.read_text().replace("200000", "400000"))
    async with desk.open() as talk:
        for number in range(6):
            desk.wire.reply(f"answer {number} " + "word " * 300)
            await talk.session.prompt(f"question {number} " + "word " * 300)
        assert talk.session.gauge().context_window_tokens == 400_000
        desk.wire.overflow()
        desk.wire.reply(SUMMARY)
        desk.wire.reply("Done.")
        assert (await talk.session.prompt("more")).reason == "done"
        assert talk.session.gauge().context_window_tokens == 200_000
        assert sum("200,000 tokens, not 400,000" in notice for notice in talk.notices) == 1
        talk.session.set_model(desk.model)
        assert talk.session.gauge().context_window_tokens == 200_000


async def test_effort_is_what_the_session_had_unless_the_command_line_says_another(one_desk: Desk) -> None:
    one_desk.wire.otherwise(lambda body: "Yes.")
    async with one_desk.open(effort="high") as talk:
        await talk.session.prompt("first")
    async with one_desk.open(talk.path) as later:
        assert later.session.effort == "high"
    async with one_desk.open(talk.path, effort="low") as last:
        assert last.session.effort == "low"


async def test_what_is_compacted_right_after_a_resume_is_sent_under_the_settings_in_force(one_desk: Desk) -> None:
    for number in range(6):
        one_desk.wire.reply(f"answer {number} " + "word " * 300)
    async with one_desk.open() as talk:
        for number in range(6):
            await talk.session.prompt(f"question {number} " + "word " * 300)
    one_desk.wire.reply(SUMMARY)
    other = f"{one_desk.wire.provider}/gpt-other"
    async with one_desk.open(talk.path, model=other) as later:
        assert (await later.session.compact()).key is not None
    kinds_then = kinds(one_desk.entries())
    assert kinds_then[kinds_then.index("Compaction") - 1] == "Setting"
    assert one_desk.bodies()[-1]["model"] == "gpt-other"
    assert one_desk.payloads(Setting)[-1].model == "gpt-other"


async def test_messages_left_waiting_are_shown_when_the_session_is_opened_again(one_desk: Desk) -> None:
    one_desk.wire.reply("Yes.")
    async with one_desk.open() as talk:
        await talk.session.prompt("first")
        talk.session.steer("later, half a character: \udcff")
    async with one_desk.open(talk.path) as again:
        again.session.announce()
        assert again.of(QueueChanged)[-1].texts == ("later, half a character: \N{REPLACEMENT CHARACTER}",)
