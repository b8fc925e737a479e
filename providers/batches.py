"""Reads a response body in batches: everything that is there at once, in one piece of bounded size.

Servers often put every event into an HTTP chunk of its own. A task of its own reads on while there is something to read,
so that what follows pays once per batch and not once per chunk.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator

BATCH_BYTES = 16 * 1024
"""So that decoding one batch never holds the event loop for long."""
_MAX_WAITING_BYTES = 1024 * 1024
_SLICE_S = 0.001
"""How long reading goes on before others get their turn: what one read of the socket brought can be hundreds of chunks."""


async def batches(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The bytes of `chunks` in order, in pieces of at most `BATCH_BYTES`. Its errors come behind what arrived before them.

    Closing it, or cancelling its reader, ends the reading at once.
    """
    waiting = bytearray()
    arrived, taken = asyncio.Event(), asyncio.Event()

    async def read() -> None:
        due = time.monotonic() + _SLICE_S
        try:
            async for chunk in chunks:
                waiting.extend(chunk)
                arrived.set()
                if time.monotonic() >= due:
                    await asyncio.sleep(0)
                    due = time.monotonic() + _SLICE_S
                while len(waiting) >= _MAX_WAITING_BYTES:
                    taken.clear()
                    await taken.wait()
        finally:
            arrived.set()

    reader = asyncio.create_task(read())
    try:
        while waiting or not reader.done():
            await arrived.wait()
            arrived.clear()
            while waiting:
                batch = bytes(waiting[:BATCH_BYTES])
                del waiting[:BATCH_BYTES]
                taken.set()
                yield batch
                await asyncio.sleep(0)
        await reader
    finally:
        reader.cancel()
        await asyncio.wait({reader})
        if not reader.cancelled():
            reader.exception()  # it was raised above, or nobody is left to hear it
