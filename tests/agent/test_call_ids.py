"""Ids of calls: providers use theirs again, in one session and after it was resumed."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from agent.call_ids import CallIds
from agent.transcript import Assistant
from providers.types import ToolCall
from tests.fakes.session_kit import Desk


@given(st.lists(st.text(max_size=8)), st.lists(st.text(max_size=8)))
def test_ids_that_were_added_are_known_and_no_others(added: list[str], others: list[str]) -> None:
    ids = CallIds(added[:3])
    for id_ in added:
        ids.add([id_])
    assert [id_ in ids for id_ in (*added, *others)] == [id_ in set(added) for id_ in (*added, *others)]


def test_T110_an_id_takes_a_few_bytes() -> None:
    ids = CallIds()
    tracemalloc.start()
    try:
        ids.add(f"toolu_{number:024}" for number in range(2_000))
        assert tracemalloc.get_traced_memory()[0] < 2_000 * 16
    finally:
        tracemalloc.stop()


async def test_an_id_that_is_used_again_is_another_one_in_the_request(one_desk: Desk) -> None:
    async def turn(path: str) -> None:
        one_desk.wire.reply(tools=[("read", {"path": path}, "same")])
        one_desk.wire.reply("Yes.")
        await talk.session.prompt(path)

    async with one_desk.open() as talk:
        await turn("one")
        await turn("two")
    async with one_desk.open(talk.path) as talk:
        await turn("three")
    calls = [b.id for reply in one_desk.payloads(Assistant) for b in reply.blocks if isinstance(b, ToolCall)]
    assert calls == ["same", "same_2", "same_3"]
