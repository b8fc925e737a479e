"""Runs slow loading in a thread of its own that nobody has to wait for, not even the end of the program."""

import asyncio
import contextlib
import threading
from collections.abc import Callable


async def in_background(work: Callable[[], None]) -> None:
    """Run `work` and wait for its end; whoever cancels the wait leaves the thread to itself."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish(error: Exception | None) -> None:
        if not done.done():
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

    def run() -> None:
        failure: Exception | None = None
        try:
            work()
        except Exception as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(finish, failure)

    threading.Thread(target=run, name="loading", daemon=True).start()
    await done
