import asyncio
from collections.abc import AsyncIterator

from providers.batches import BATCH_BYTES, batches


async def chunks(count: int, size: int) -> AsyncIterator[bytes]:
    """All there at once: not one of them has to be waited for."""
    for number in range(count):
        yield bytes([number % 256]) * size


async def test_the_bytes_come_in_order_and_in_pieces_of_bounded_size() -> None:
    got = [batch async for batch in batches(chunks(3_000, 100))]
    assert b"".join(got) == b"".join([chunk async for chunk in chunks(3_000, 100)])
    assert max(map(len, got)) <= BATCH_BYTES


async def test_a_body_that_is_there_at_once_leaves_others_their_turn() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    count, before = 0, 0
    async for _ in batches(chunks(64, BATCH_BYTES)):
        if count:
            assert turns > before
        count, before = count + 1, turns
    task.cancel()
    assert count == 64
