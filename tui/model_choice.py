"""Which models there are, which one is meant, and the clients that reach them; shared by the sessions of one process.

Importing it loads no SDK: clients connect when they are first used or warmed up.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from agent.context.o200k import TokenizerUnavailableError
from agent.context.tokens import Counter
from agent.model_in_force import Model
from agent.model_listing import save_listing
from providers import registry
from providers.base import ListedModel, Provider
from providers.errors import ProviderError
from providers.model_table import MODELS
from providers.models import Catalogue, ModelFacts, load_catalogue, model_facts
from providers.types import Effort, ProviderConfig
from tui.startup import NoKeyError, Startup, reachable


class Models:
    """The models of one process: clients, what servers listed, prices, the tokenizer."""

    def __init__(self, startup: Startup, counter: Counter) -> None:
        self._startup = startup
        self.counter = counter
        self._clients: dict[str, Provider] = {}
        self._catalogue: Catalogue | None = None
        self._listed: dict[str, ListedModel] = {}

    def choose(self, name: str, effort: Effort | None = None) -> Model:
        """The model of that name. `effort` None: what the command line or the configuration says.

        Raises:
            SetupError: no such provider, or no key for it.
        """
        provider, _, model_id = self._startup.qualified(name).partition("/")
        config = self._startup.providers[provider]
        if not reachable(config):
            raise NoKeyError(provider)
        if effort is None:
            effort = self._startup.arguments.effort or self._startup.loaded.config.effort  # type: ignore[assignment]
        return Model(self.client(provider), self.facts(config, model_id), effort)

    def client(self, name: str) -> Provider:
        if name not in self._clients:
            self._clients[name] = registry.create(self._startup.providers[name], counter=self.counter.count)
        return self._clients[name]

    def facts(self, config: ProviderConfig, model_id: str) -> ModelFacts:
        overrides = self._startup.loaded.config.models
        override = overrides.get(f"{config.name}/{model_id}") or overrides.get(model_id)
        listed = self._listed.get(f"{config.name}/{model_id}")
        return model_facts(config, model_id, override, listed, self._catalogue)

    def load_prices(self) -> None:
        """Load the price catalogue, which no request needs. Blocks; call it in a thread."""
        if self._catalogue is None:
            self._catalogue = load_catalogue()

    def load_tokenizer(self) -> None:
        """The same for the tokenizer."""
        with contextlib.suppress(TokenizerUnavailableError):
            self.counter.load()

    async def listed(self, provider: str, patience_s: float) -> Sequence[ListedModel]:
        """What the provider's server lists now; kept for the next start.

        Raises:
            ProviderError, TimeoutError: it does not answer.
        """
        client = self.client(provider)
        async with asyncio.timeout(patience_s):
            models = await client.list_models()
        self._listed.update({f"{provider}/{model.id}": model for model in models})
        await asyncio.to_thread(save_listing, self._startup.paths.models, client.config, models)
        return models

    async def corrected_default(self, patience_s: float) -> str | None:
        """PROVIDER/MODEL to use where none was named, once the server was asked; None: the default stands."""
        if self._startup.named_model is not None:
            return None
        default = self._startup.default_name()
        provider = default.partition("/")[0]
        with contextlib.suppress(ProviderError, TimeoutError):
            await self.listed(provider, patience_s)
        corrected = self._startup.default_name()
        return None if corrected == default else corrected

    async def choices(self, patience_s: float) -> list[tuple[str, str]]:
        """(PROVIDER/MODEL, a few words) for every provider that can be reached, as its server lists them, else from the table."""
        choices: list[tuple[str, str]] = []
        for name, config in self._startup.providers.items():
            if not reachable(config):
                continue
            ids: list[str] = []
            with contextlib.suppress(ProviderError, TimeoutError):
                ids = [model.id for model in await self.listed(name, patience_s)]
            for model_id in ids or [known for known, row in MODELS.items() if row.api == config.api]:
                facts = self.facts(config, model_id)
                choices.append((f"{name}/{model_id}", _detail(facts)))
        return choices


def _detail(facts: ModelFacts) -> str:
    window = facts.context_window_tokens
    size = f"{window / 1_000_000:g}M" if window >= 1_000_000 else f"{window // 1000}k"
    price = f" · ${facts.price.input:g} in, ${facts.price.output:g} out per million" if facts.price is not None else ""
    return f"{size} window{price}"
