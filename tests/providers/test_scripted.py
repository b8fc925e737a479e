import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from providers.assembler import Assembler
from providers.base import ListedModel, ModelRequest
from providers.errors import BadRequestError, StreamBrokenError
from providers.scripted import Call, Pause, Reply, Say, ScriptedProvider, Stall, count_request
from providers.types import (
    AssistantMessage,
    Completed,
    ImageBlock,
    Message,
    OpaqueBlock,
    PromptSection,
    ProviderConfig,
    StreamEvent,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ToolCall,
    ToolCallStarted,
    ToolResultMessage,
    ToolSpec,
    Usage,
    UserMessage,
)

CONFIG = ProviderConfig("scripted", "scripted")


def request(messages: Sequence[Message] | None = None, extra: tuple[Message, ...] = ()) -> ModelRequest:
    sent = messages if messages is not None else [UserMessage((TextBlock("hello"),))]
    return ModelRequest("demo", (PromptSection("a", "system", True),), (), sent, 0, 0, 100, extra=extra)


def provider(*replies: Reply, **options: Any) -> ScriptedProvider:
    return ScriptedProvider(CONFIG, replies, **options)


async def collect(scripted: ScriptedProvider, asked: ModelRequest | None = None) -> list[StreamEvent]:
    return [event async for event in scripted.stream(asked or request())]


async def test_replies_are_played_in_order_and_completed() -> None:
    scripted = provider(
        [Say("Hm.", thinking=True), Say("Look: "), Call("c1", "read", {"path": "a"}), Call("c2", "read", "{oops")],
        [TextDelta("Done."), Completed("max_tokens", Usage(7, output_tokens=3), "why")],
    )
    first = Assembler()
    for event in await collect(scripted):
        first.feed(event)
    assert first.blocks() == (
        ThinkingBlock("Hm."),
        TextBlock("Look: "),
        ToolCall("c1", "read", '{"path":"a"}'),
        ToolCall("c2", "read", "{oops"),
    )
    assert first.stop_reason == "tool_use"
    assert await collect(scripted) == [TextDelta("Done."), Completed("max_tokens", Usage(7, output_tokens=3), "why")]
    with pytest.raises(BadRequestError):
        await collect(scripted)


async def test_a_reply_may_answer_what_was_asked() -> None:
    def echo(asked: ModelRequest) -> list[Say]:
        last = asked.messages[-1].blocks[0]
        return [Say(last.text.upper() if isinstance(last, TextBlock) else "?")]

    assert (await collect(provider(echo)))[0] == TextDelta("HELLO")
    always = ScriptedProvider(CONFIG, echo)
    for _ in range(2):
        assert (await collect(always))[0] == TextDelta("HELLO")


async def test_pieces_keep_their_pace() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    paced = provider([Say("x" * 100, chars_per_s=1000), Pause(3)], [Say("abcdef", piece_chars=4)], sleep=sleep)
    texts = [event.text for event in await collect(paced) if isinstance(event, TextDelta)]
    assert texts == ["x" * 20] * 5
    assert waits == [0.02] * 5 + [3]
    assert [e.text for e in await collect(paced) if isinstance(e, TextDelta)] == ["abcd", "ef"]


async def test_failures_come_where_they_stand() -> None:
    broken = provider([Say("half"), StreamBrokenError("gone"), Say("never")])
    heard = Assembler()
    with pytest.raises(StreamBrokenError):
        async for event in broken.stream(request()):
            heard.feed(event)
    assert heard.blocks() == (TextBlock("half"),)


async def test_a_stall_ends_with_cancellation() -> None:
    heard = asyncio.Event()

    async def listen() -> None:
        async for _ in provider([Say("half"), Stall()]).stream(request()):
            heard.set()

    task = asyncio.create_task(listen())
    await asyncio.wait_for(heard.wait(), 40)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)


async def test_requests_are_kept_as_they_were() -> None:
    live: list[Message] = [UserMessage((TextBlock("one"),))]
    every, newest, none = (provider(*[[Say("ok")]] * 3, record=record) for record in (None, 1, 0))
    for scripted in (every, newest, none):
        for number in range(3):
            live.append(UserMessage((TextBlock(str(number)),)))
            await collect(scripted, request(live))
    assert [len(asked.messages) for asked in every.requests] == [2, 3, 4]
    assert [len(asked.messages) for asked in newest.requests] == [7]
    assert none.requests == []


def test_usage_counts_everything_that_is_sent() -> None:
    conversation: list[Message] = [
        UserMessage((TextBlock("x" * 10), ImageBlock("image/png", "ab"))),
        AssistantMessage(
            (
                TextBlock("y" * 20),
                ThinkingBlock("z" * 30),
                ToolCall("c", "n" * 5, "a" * 6),
                OpaqueBlock("responses", "f", {"k": 1}),
            )
        ),
        ToolResultMessage("c", (TextBlock("r" * 7),)),
    ]
    tool = ToolSpec("read", "d", {})
    asked = ModelRequest("demo", (PromptSection("a", "s" * 3, True),), (tool,), conversation, 0, 0, 1)
    tool_chars = len('{"name":"read","description":"d","parameters":{}}')
    expected = 3 + tool_chars + 10 + 2_000 + 20 + 30 + 5 + 6 + len('{"k":1}') + 7 + 3 * 4
    assert count_request(asked, len) == expected


async def test_counted_and_given_usage() -> None:
    counted = provider([Say("four"), Call("c", "read", "{}")], count=len)
    last = (await collect(counted, request(extra=(UserMessage((TextBlock("more"),)),))))[-1]
    assert isinstance(last, Completed)
    assert last.usage == Usage(
        len("system") + len("hello") + len("more") + 2 * 4, output_tokens=len("four" + "read" + "{}")
    )
    given = provider([Say("x")], usage=Usage(1, 2, 3, 4))
    assert (await collect(given))[-1] == Completed("end_turn", Usage(1, 2, 3, 4))


async def test_the_rest_of_the_contract() -> None:
    scripted = provider(models=[ListedModel("demo")], count=len)
    scripted.warm_up()
    assert await scripted.list_models() == [ListedModel("demo")]
    assert await scripted.count_tokens(request()) == len("system") + len("hello") + 4
    await scripted.aclose()


async def test_a_call_arrives_in_pieces() -> None:
    events = await collect(provider([Call("c", "read", {"path": "abc"}, piece_chars=5)]))
    assert events[0] == ToolCallStarted("c", "read")
    assert len(events) == 6
