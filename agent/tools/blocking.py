"""Runs a tool's blocking file work in a thread without letting it outlive the call."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work` in a thread. On cancellation its event is set, and the thread's end is awaited, then it is raised."""
    stop = threading.Event()
    future = asyncio.get_running_loop().run_in_executor(None, work, stop)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        # Its own failure tells nobody anything now.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait([future])
        raise
