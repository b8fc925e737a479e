"""Whole conversations over the Chat Completions API, as compatible servers speak it."""

import asyncio
from datetime import datetime

from agent.events import CompactionFinished, CompactionStarted, TurnEnded
from agent.transcript import Assistant, Prefix
from providers.types import Usage
from tests.agent.test_session_compaction import SUMMARY, fill, small
from tests.agent.test_session_prefix import check_prefixes
from tests.agent.test_session_turn import CODE, FIXED, TEST, script_the_repair
from tests.fakes.chat_wire import CHAT, ChatStream
from tests.fakes.model_server import RecordedRequest, Reply
from tests.fakes.session_kit import Approver, Desk, git, make_project


async def test_a_failing_test_is_fixed_and_the_prefix_stays(chat_desk: Desk) -> None:
    desk = chat_desk
    make_project(desk.project, {"calc.py": CODE, "test_calc.py": TEST, ".gitignore": "__pycache__\n"})
    git(desk.project, "init", "-q", "-b", "main")
    script_the_repair(desk)
    async with desk.open(approver=Approver(), mode="ask") as talk:
        assert await talk.session.prompt("The test fails. Fix it.") == TurnEnded("done")
        # This API does not tell what went into a cache.
        assert talk.usage == Usage(1_800, 4_880, 0, 150)
        assert talk.session.gauge().used_tokens == 1_800 + 30
        desk.clock = lambda: datetime(2026, 12, 1, 0, 1)
        desk.wire.reply("A new day.")
        await talk.session.prompt("And now?")
        desk.wire.unfinished("half", calls=[("read", {"path": "calc.py"})], tool=("read", {"path": "x"}))
        turn = asyncio.ensure_future(talk.session.prompt("third"))
        await talk.requested(6)
        talk.session.interrupt()
        await turn
    assert (desk.project / "calc.py").read_text() == FIXED
    async with desk.open(talk.path) as later:
        desk.wire.reply("I am back.", tools=[("read", {"path": "calc.py"}), ("nothing", {}), ("bash", "{")])
        desk.wire.reply("Good.")
        assert (await later.session.prompt("fourth")).reason == "done"
    check_prefixes(desk)
    assert len(desk.payloads(Prefix)) == 1
    assert {reply.api for reply in desk.payloads(Assistant)} == {"chat"}


async def test_compaction_by_trigger_and_by_overflow(chat_desk: Desk) -> None:
    desk = chat_desk
    async with small(desk).open() as talk:
        turns = 0
        desk.wire.otherwise(lambda body: SUMMARY if desk.wire.is_summary(body) else "word " * 200)
        while not talk.of(CompactionStarted):
            assert turns < 30
            assert (await talk.session.prompt(f"question {turns} " + "more " * 60)).reason == "done"
            turns += 1
        assert talk.of(CompactionFinished)[0].key is not None
        await fill(desk, talk, 2)
        desk.wire.overflow()
        desk.wire.reply(SUMMARY)
        desk.wire.reply("I go on.")
        assert (await talk.session.prompt("too long")).reason == "done"
        assert [event.trigger for event in talk.of(CompactionStarted)][-1] == "overflow"


async def test_B7_a_server_that_reports_nothing_is_estimated_and_marked(chat_desk: Desk) -> None:
    desk = small(chat_desk)

    def answer(request: RecordedRequest) -> Reply:
        text = SUMMARY if desk.wire.is_summary(request.json) else "天气很好。" * 100
        return ChatStream().text(text).stop().reply_at_once()

    desk.wire.server.always(CHAT, answer)
    async with desk.open() as talk:
        turns = 0
        while not talk.of(CompactionStarted):
            assert turns < 30
            assert (await talk.session.prompt(f"question {turns}")).reason == "done"
            assert talk.session.gauge().is_estimate and talk.session.gauge().used_tokens > 0
            turns += 1
        assert talk.of(CompactionFinished)[0].key is not None
