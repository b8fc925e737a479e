"""What a model's server does wrong, met by real sessions: a sample of all faults in each run, all of them among the slow."""

import asyncio
import time
from pathlib import Path

import pytest

from agent.events import (
    CompactionFinished,
    MessageCompleted,
    RetryScheduled,
    TextStreamed,
    ToolCallStreamed,
    ToolStarted,
)
from agent.reactions import BLANK_TEXT, BROKEN_TEXT
from agent.retry import RetryPolicy
from agent.transcript import User
from providers.types import TextBlock, ToolCall, Usage
from tests.agent.test_session_compaction import SUMMARY, fill, small
from tests.fakes.fault import ALL, COUNT_FILE, EDIT, Fault
from tests.fakes.fault_play import FAULTS, SIDES, play
from tests.fakes.model_server import ModelServer, Reply
from tests.fakes.pens import Pens
from tests.fakes.session_kit import Desk
from tests.faults import g04_provider_faults, g05_stalls

SAMPLE: dict[str, tuple[str, ...]] = {
    "anthropic": ("stop full: text", "rst behind a closed call"),
    "responses": ("error overloaded behind a closed call",),
    "chat": (
        "403 the token limit exce", "silence behind a closed call", "pings for ever", "arguments: a lone surrogate",
        "a lone surrogate in id and name", "still too long",
    ),
}  # fmt: skip
"""What the adapters decide, on each; what they share, on the one that other tests look at least."""
BY_NAME = {fault.name: fault for fault in FAULTS}


@pytest.mark.parametrize(("api", "name"), [(api, name) for api, names in SAMPLE.items() for name in names])
async def test_T76_to_T89_a_sample_of_all_faults_has_the_reaction_it_has_to_have(
    api: str, name: str, tmp_path: Path
) -> None:
    assert await play(BY_NAME[name], api, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("api", ALL)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.rows.replace(' ', '_')} {fault.name}")
async def test_T76_to_T89_every_fault_has_the_reaction_it_has_to_have(fault: Fault, api: str, tmp_path: Path) -> None:
    if api not in fault.apis:
        pytest.skip("the API has no words for it")
    assert await play(fault, api, tmp_path) == []


def test_G4_there_are_enough_faults_with_names_of_their_own_and_each_row_has_some() -> None:
    for api in ALL:
        names = [fault.name for fault in FAULTS if api in fault.apis]
        assert len(names) == len(set(names)) >= 60
    assert len(g04_provider_faults.TRIALS) >= 180
    rows = {row for fault in FAULTS for row in fault.rows.split()}
    assert {f"T{number}" for number in range(76, 90)} - {"T86"} <= rows


@pytest.mark.slow
def test_G5_stalls_are_noticed_and_pings_are_left_alone() -> None:
    assert g05_stalls.measure(0.01).holds


@pytest.fixture(params=ALL)
def pens(request: pytest.FixtureRequest, model_server: ModelServer) -> Pens:
    return Pens(SIDES[request.param](model_server))


@pytest.fixture
def any_desk(pens: Pens, project: Path, tmp_path: Path) -> Desk:
    return Desk(pens.wire, project, tmp_path / "home")


@pytest.fixture
def chat_pens(chat_desk: Desk) -> Pens:
    """For what no adapter decides."""
    return Pens(chat_desk.wire)


# --------------------------------------------------------------------------- T76, T90: waiting


async def test_T76_a_wait_is_told_with_its_length_and_ends_at_once_when_it_is_cancelled(
    chat_desk: Desk, chat_pens: Pens
) -> None:
    async with chat_desk.open() as talk:
        chat_pens.script(chat_pens.refuse(429, "rate", "slow down", {"retry-after": "45"}))
        turn = asyncio.ensure_future(talk.session.prompt("hi"))
        retry = await talk.seen(RetryScheduled)
        assert (retry.reason, retry.delay_s, retry.attempt, retry.max_attempts) == ("slow down", 45.0, 2, 6)
        started = time.monotonic()
        talk.session.interrupt()
        assert (await turn).reason == "interrupted"
        assert time.monotonic() - started < 20
        chat_pens.wire.reply("Here.")
        assert (await talk.session.prompt("again")).reason == "done"
    assert len(chat_pens.wire.requests) == 2


async def test_T90_a_wall_clock_that_jumps_by_days_disturbs_neither_retry_nor_tool_nor_save(
    chat_desk: Desk, chat_pens: Pens, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, jumps = time.time, iter(range(1_000_000))
    (chat_desk.project / COUNT_FILE).write_text("0\n")
    async with chat_desk.open(retry_policy=RetryPolicy(base_delay_s=0.01)) as talk:
        # A day ahead and a day behind in turn, each time that anyone looks.
        monkeypatch.setattr(time, "time", lambda: real() + (86_400 if next(jumps) % 2 else -86_400))
        chat_pens.wire.reply(tools=[("read", {"path": COUNT_FILE})])
        chat_pens.script(chat_pens.refuse(529, "overloaded", "busy"), chat_pens.new().text("half").reply("rst"))
        chat_pens.wire.reply(tools=[("edit", EDIT)])
        chat_pens.wire.reply("Done.")
        started = time.monotonic()
        assert (await talk.session.prompt("hi")).reason == "done"
        assert time.monotonic() - started < 50
        assert all(0 <= event.delay_s <= 32 for event in talk.of(RetryScheduled))
    entries = chat_desk.entries()
    assert [entry.key for entry in entries] == list(range(1, len(entries) + 1))
    assert (chat_desk.project / COUNT_FILE).read_text() == "0+1\n"
    async with chat_desk.open(talk.path) as later:
        chat_pens.wire.reply("Still here.")
        assert (await later.session.prompt("again")).reason == "done"
        assert later.session.id == talk.session.id


# --------------------------------------------------------------------------- T79, T85: calls


async def test_T85_a_call_has_one_id_from_its_first_character_to_its_result(any_desk: Desk, pens: Pens) -> None:
    (any_desk.project / COUNT_FILE).write_text("0\n")
    async with any_desk.open() as talk:
        for _ in range(2):
            pens.wire.reply(tools=[("read", {"path": COUNT_FILE}, "same"), ("glob", {"pattern": "*"}, "same")])
            pens.wire.reply("Done.")
            assert (await talk.session.prompt("look")).reason == "done"
        replies = [
            block.id for event in talk.of(MessageCompleted) for block in event.blocks if isinstance(block, ToolCall)
        ]
        assert len(set(replies)) == len(replies) == 4
        assert [event.call_id for event in talk.of(ToolStarted)] == replies
        assert [event.call_id for event in talk.results] == replies
        streamed = list(dict.fromkeys(event.call_id for event in talk.of(ToolCallStreamed)))
        # The Chat API passes on only the first call of a reply while it is written.
        assert [id_ for id_ in replies if id_ in streamed] == streamed and replies[2] in streamed
    async with any_desk.open(talk.path) as later:
        pens.wire.reply(tools=[("read", {"path": COUNT_FILE}, "same")])
        pens.wire.reply("Done.")
        assert (await later.session.prompt("look")).reason == "done"
        assert later.results[-1].call_id not in replies


# --------------------------------------------------------------------------- T87: too long, and said in the middle


async def test_T87_a_reply_that_breaks_off_as_too_long_is_gone_on_with_behind_the_users_turn(
    any_desk: Desk, pens: Pens
) -> None:
    async with any_desk.open() as talk:
        await fill(any_desk, talk)
        pens.script(pens.new().text("I begin").error("invalid", "prompt is too long").reply())
        pens.wire.reply(SUMMARY)
        pens.wire.reply("and end.")
        assert (await talk.session.prompt("go")).reason == "done"
        assert len(talk.of(CompactionFinished)) == 1
    assert pens.wire.texts(any_desk.bodies()[-1])[-1] == BROKEN_TEXT
    assert [p for p in any_desk.payloads(User) if p.synthetic] == [User((TextBlock(BROKEN_TEXT),), synthetic=True)]


async def test_T87_a_request_that_silently_filled_the_window_is_compacted_before_the_next(
    chat_desk: Desk, chat_pens: Pens
) -> None:
    """A server that does not refuse what is too long says so only in its report."""
    (chat_desk.project / "a.txt").write_text("x\n")
    async with small(chat_desk, CLAW_AUTOCOMPACT_PCT="95").open() as talk:
        await fill(chat_desk, talk)
        chat_pens.wire.reply("I look.", tools=[("read", {"path": "a.txt"})], usage=Usage(20_500, 0, 0, 20))
        chat_pens.wire.reply(SUMMARY)
        chat_pens.wire.reply("Done.")
        assert (await talk.session.prompt("go")).reason == "done"
        (compaction,) = talk.of(CompactionFinished)
        assert compaction.key is not None
        assert talk.session.gauge().used_tokens < 16_000


# --------------------------------------------------------------------------- T89: what the user sends


async def test_T89_whatever_the_user_sends_is_a_request_that_the_api_takes(any_desk: Desk, pens: Pens) -> None:
    texts = (
        " \n\t ",
        "half of \ud83d an emoji",
        "a NUL \0 inside",
        "\u200b",
        "\ufeff",
        "\x1b[31m",
        "x" * 70_000 + "😀"[:1],
    )
    pens.wire.otherwise(lambda body: "Yes.")
    async with any_desk.open() as talk:
        for text in texts:
            assert (await talk.session.prompt(text)).reason == "done", text[:40]
        talk.session.steer(" ")
        assert (await talk.session.prompt("\n")).reason == "done"
    assert len(pens.wire.requests) >= len(texts)
    for request in pens.wire.requests:
        request.body.decode("utf-8")
    said = pens.wire.texts(any_desk.bodies()[-1])
    assert said[0] == BLANK_TEXT or said[1] == BLANK_TEXT
    assert any("half of \ufffd an emoji" in text for text in said)


async def test_B9_a_stalled_stream_can_be_left_and_the_message_is_kept(chat_desk: Desk, chat_pens: Pens) -> None:
    async with chat_desk.open() as talk:
        chat_pens.script(chat_pens.new().text("I begin").reply("stall"))
        turn = asyncio.ensure_future(talk.session.prompt("remember me"))
        await talk.seen(TextStreamed)
        started = time.monotonic()
        talk.session.interrupt()
        assert (await turn).reason == "interrupted"
        assert time.monotonic() - started < 20
        chat_pens.wire.reply("I do.")
        assert (await talk.session.prompt("go on")).reason == "done"
    assert any("remember me" in text for text in chat_pens.wire.texts(chat_desk.bodies()[-1]))


# --------------------------------------------------------------------------- B20: where keys go


async def test_B20_R10_a_project_cannot_send_the_users_key_to_another_server(chat_desk: Desk, chat_pens: Pens) -> None:
    wire = chat_pens.wire
    with ModelServer() as elsewhere:
        for path in ("/v1/messages", "/v1/responses", "/v1/chat/completions", "/v1/models"):
            elsewhere.always(path, Reply(status=500))
        folder = chat_desk.project / ".claw"
        folder.mkdir()
        (folder / "config.toml").write_text(
            f'[providers.{wire.provider}]\nbase_url = "{elsewhere.url}"\nheaders = {{ x-copy = "1" }}\n'
        )
        (chat_desk.project / ".env").write_text(
            f"ANTHROPIC_BASE_URL={elsewhere.url}\nOPENAI_BASE_URL={elsewhere.url}\n"
        )
        wire.reply("Hello.")
        async with chat_desk.open() as talk:
            assert (await talk.session.prompt("hi")).reason == "done"
        assert elsewhere.requests == []
    assert "x-copy" not in wire.requests[-1].headers
