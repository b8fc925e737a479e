"""What a session learns beside its first request, in threads that nobody waits for: prices, then the tokenizer.

The request comes first: both hold the interpreter for a while, so they begin once it has left.
"""

import asyncio
import contextlib
from collections.abc import Callable

from agent.background import in_background
from agent.conversation import Conversation
from agent.model_in_force import ChooseModel
from providers.errors import ProviderError

_DELAY_S = 0.05
"""From the SDK being there to the rest: a request needs a fifth of it to leave."""


class Loading:
    """Loads once for a session; what was estimated until then is counted anew."""

    def __init__(
        self,
        talk: Conversation,
        choose_model: ChooseModel,
        load_prices: Callable[[], None],
        load_tokenizer: Callable[[], None],
    ) -> None:
        """What loads blocks and is called in a thread; `choose_model` knows the prices afterwards."""
        self._talk = talk
        self._choose_model = choose_model
        self._load_prices = load_prices
        self._load_tokenizer = load_tokenizer
        self._counting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, unless it has begun."""
        if self._talk.loading is None:
            self._talk.loading = asyncio.ensure_future(self._learn_prices())
            self._counting = asyncio.ensure_future(self._recount(self._talk.loading))

    async def stop(self) -> None:
        for task in (self._talk.loading, self._counting):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _learn_prices(self) -> None:
        with contextlib.suppress(ProviderError):
            await in_background(self._talk.provider.warm_up)
        await asyncio.sleep(_DELAY_S)
        await in_background(self._load_prices)
        facts = self._talk.facts
        self._talk.use_model(self._choose_model(f"{facts.provider}/{facts.id}", self._talk.effort))

    async def _recount(self, prices: "asyncio.Task[None]") -> None:
        await asyncio.wait({prices})
        await in_background(self._load_tokenizer)
        recorder = self._talk.recorder
        if recorder.meter.recount(recorder.transcript.branch, recorder.window):
            self._talk.emit_gauge()
