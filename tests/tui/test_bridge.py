import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from textual.message import Message

from agent.events import (
    Event,
    GaugeChanged,
    Notice,
    TextStreamed,
    ThinkingStreamed,
    ToolCallStreamed,
    ToolProgress,
    TurnEnded,
)
from agent.permissions.approval import Allow, ApprovalRequest
from tui.feed import BITE_CHARS, EventFeed
from tui.questions import QuestionAsked, make_approver


class Posted:
    def __init__(self) -> None:
        self.messages: list[Message] = []

    def __call__(self, message: Message) -> None:
        self.messages.append(message)


def take_all(feed: EventFeed) -> list[Event]:
    taken: list[Event] = []
    while events := feed.take():
        taken += events
    return taken


def test_deltas_of_a_kind_are_merged_and_all_else_is_kept_in_order() -> None:
    feed = EventFeed(Posted())
    gauge = GaugeChanged(1, True, 2, 3, 4, None)
    for event in (
        ThinkingStreamed("a"), ThinkingStreamed("b"), TextStreamed("c"), TextStreamed("d"),
        TextStreamed("e", opens_block=True), TextStreamed("f"), gauge, gauge, TextStreamed("g"),
        ToolCallStreamed("1", "edit", 10), ToolCallStreamed("1", "edit", 90), ToolCallStreamed("2", "edit", 5),
        ToolProgress("1", "x"), ToolProgress("1", "y"), ToolProgress("2", "z"), TurnEnded("done"),
    ):  # fmt: skip
        feed.emit(event)
    assert take_all(feed) == [
        ThinkingStreamed("ab"), TextStreamed("cd"), TextStreamed("ef", opens_block=True), gauge, gauge,
        TextStreamed("g"), ToolCallStreamed("1", "edit", 90), ToolCallStreamed("2", "edit", 5),
        ToolProgress("1", "xy"), ToolProgress("2", "z"), TurnEnded("done"),
    ]  # fmt: skip


def test_one_message_is_pending_however_many_events_arrive() -> None:
    posted = Posted()
    feed = EventFeed(posted)
    for _ in range(1_000):
        feed.emit(TextStreamed("word "))
    assert len(posted.messages) == 1
    assert take_all(feed) == [TextStreamed("word " * 1_000)]
    feed.emit(TextStreamed("x"))
    assert len(posted.messages) == 2


def test_a_flood_is_taken_in_bites_and_asks_for_the_rest() -> None:
    posted = Posted()
    feed = EventFeed(posted)
    piece = "x" * 1_024
    for _ in range(200):
        feed.emit(TextStreamed(piece))
    first = feed.take()
    assert sum(len(e.text) for e in first if isinstance(e, TextStreamed)) <= 2 * BITE_CHARS
    assert len(posted.messages) == 2
    rest = take_all(feed)
    whole = "".join(e.text for e in (*first, *rest) if isinstance(e, TextStreamed))
    assert whole == piece * 200


def test_events_from_many_threads_all_arrive() -> None:
    feed = EventFeed(Posted())
    barrier = threading.Barrier(8)

    def send(number: int) -> None:
        barrier.wait()
        for count in range(200):
            feed.emit(Notice("info", f"{number}/{count}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(8)))
    texts = [event.text for event in take_all(feed) if isinstance(event, Notice)]
    assert sorted(texts) == sorted(f"{n}/{c}" for n in range(8) for c in range(200))
    assert [t for t in texts if t.startswith("3/")] == [f"3/{c}" for c in range(200)]


def test_a_closed_feed_says_nothing_more() -> None:
    posted = Posted()
    feed = EventFeed(posted)
    feed.emit(Notice("info", "before"))
    feed.close()
    feed.emit(Notice("info", "after"))
    assert take_all(feed) == [] and len(posted.messages) == 1


async def test_a_question_waits_for_its_answer_and_is_taken_back_by_cancellation() -> None:
    posted = Posted()
    ask = make_approver(posted)
    request = ApprovalRequest("1", "bash", "ls", command="ls")
    asked = asyncio.ensure_future(ask(request))
    await asyncio.sleep(0)
    question = posted.messages[0]
    assert isinstance(question, QuestionAsked) and question.request is request
    question.future.set_result(Allow("session"))
    assert await asked == Allow("session")

    cancelled = asyncio.ensure_future(ask(request))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    question = posted.messages[1]
    assert isinstance(question, QuestionAsked) and question.future.cancelled()
