"""A clock that only a test moves, for what waits: retries and watchdogs."""

import asyncio

from agent.retry import Clock


class ManualTime:
    """A clock that only `advance` moves."""

    def __init__(self, chance: float = 0.5) -> None:
        self._now_s = 1_000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self.clock = Clock(lambda: self._now_s, self._sleep, lambda: chance)

    async def _sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        entry = (self._now_s + seconds, future)
        self._sleepers.append(entry)
        try:
            await future
        finally:
            self._sleepers.remove(entry)

    @property
    def timers(self) -> int:
        return len(self._sleepers)

    def advance(self, seconds: float) -> None:
        self._now_s += seconds
        for due_s, future in self._sleepers:
            if due_s <= self._now_s and not future.done():
                future.set_result(None)

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
