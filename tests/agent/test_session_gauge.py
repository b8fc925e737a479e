"""One figure, wherever it is shown: events, session, parts, `claw context`, compaction."""

from agent.events import CompactionStarted, GaugeChanged
from providers.types import Usage
from tests.fakes.claw_process import run
from tests.fakes.session_kit import Desk

LISTING = "".join(f"line {n} 中文文本 of a file that is read\n" for n in range(300))


async def test_M5_one_gauge_feeds_events_parts_context_and_compaction(desk: Desk) -> None:
    (desk.project / "a.py").write_text(LISTING)
    for n in range(3):
        desk.wire.reply(tools=[("read", {"path": "a.py", "offset": 1 + n})], usage=Usage(3_000 + n * 4_000, 500, 0, 60))
    desk.wire.reply("Read.", usage=Usage(15_000, 500, 0, 40))
    async with desk.open() as talk:
        await talk.session.prompt("read it")
        shown = talk.session.gauge()
        assert (shown.used_tokens, shown.is_estimate) == (15_540, False)
        assert talk.of(GaugeChanged)[-1] == shown
        assert sum(part.tokens for part in talk.session.parts()) == shown.used_tokens
        desk.wire.otherwise(lambda body: "ok")
        await talk.session.compact()
        assert talk.of(CompactionStarted)[0].tokens_before == shown.used_tokens
        after = talk.session.gauge()
    told = (await run(desk, "context", talk.session.id, "--json")).json
    assert (told["used_tokens"], told["is_estimate"]) == (after.used_tokens, after.is_estimate)
    assert sum(part["tokens"] for part in told["parts"]) == after.used_tokens


async def test_invariant_7_a_window_over_its_limit_is_shown_over_its_limit(desk: Desk) -> None:
    desk.wire.reply("Yes.", usage=Usage(230_000, 0, 0, 10))
    desk.env["CLAW_DISABLE_COMPACT"] = "1"
    async with desk.open() as talk:
        await talk.session.prompt("hi")
        gauge = talk.session.gauge()
        assert gauge.used_tokens == 230_010 > gauge.context_window_tokens
        assert gauge.level == "full"
        ended = await talk.session.prompt("more")
        assert ended.reason == "context_full"
