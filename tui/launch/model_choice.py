"""Which models there are, which one is meant, and the clients that reach them; shared by the sessions of one process.

Importing it loads no SDK: clients connect when they are first used or warmed up.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from agent.context.o200k import TokenizerUnavailableError
from agent.context.tokens import Counter
from agent.model_in_force import Model
from agent.model_listing import read_listing, save_listing
from providers import registry
from providers.base import ListedModel, Provider
from providers.errors import ProviderError
from providers.model_table import MODELS
from providers.models import Catalogue, ModelFacts, load_catalogue, model_facts
from providers.types import Effort, ProviderConfig
from tui.launch.listed_models import Listing, ModelChoice, SilentProvider, choice_of
from tui.launch.startup import NoKeyError, Startup, reachable


class Models:
    """The models of one process: clients, what servers listed, prices, the tokenizer."""

    def __init__(self, startup: Startup, counter: Counter) -> None:
        self._startup = startup
        self.counter = counter
        self._clients: dict[str, Provider] = {}
        self._catalogue: Catalogue | None = None
        self._listed: dict[str, ListedModel] = {}
        self._read: set[str] = set()
        """Providers whose last listing was read from the disk."""

    def renew(self, startup: Startup) -> None:
        """Other settings from now on. Clients stay where their provider did not change."""
        self._startup = startup
        self._clients = {n: c for n, c in self._clients.items() if startup.providers.get(n) == c.config}
        self._read.clear()

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
        return model_facts(config, model_id, override, self._listing(config, model_id), self._catalogue)

    def _listing(self, config: ProviderConfig, model_id: str) -> ListedModel | None:
        """What the server says of a model, or said within the last week."""
        name = f"{config.name}/{model_id}"
        if name not in self._listed and config.name not in self._read and config.api != "scripted":
            self._read.add(config.name)
            for model in read_listing(self._startup.paths.models, config):
                self._listed.setdefault(f"{config.name}/{model.id}", model)
        return self._listed.get(name)

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

    async def choices(self, patience_s: float) -> Listing:
        """Every provider's models as its server lists them, all asked side by side; those of the table, and who was silent and
        why, where one does not answer."""
        names = [name for name, config in self._startup.providers.items() if reachable(config)]
        answers = await asyncio.gather(*(self._offered(name, patience_s) for name in names))
        return [item for answer in answers for item in answer]

    async def _offered(self, name: str, patience_s: float) -> list[ModelChoice | SilentProvider]:
        config = self._startup.providers[name]
        ids: list[str] = []
        silent: list[SilentProvider] = []
        try:
            ids = [model.id for model in await self.listed(name, patience_s)]
        except TimeoutError:
            silent = [SilentProvider(name, f"no answer within {patience_s:g} s")]
        except ProviderError as error:
            silent = [SilentProvider(name, f"{error.message} {error.remedy}".strip())]
        if not ids:  # what it listed within the last week, else what is known of its API
            ids = [m.id for m in read_listing(self._startup.paths.models, config)] or _in_table(config)
        return [*(choice_of(self.facts(config, model_id)) for model_id in ids), *silent]


def _in_table(config: ProviderConfig) -> list[str]:
    return [known for known, row in MODELS.items() if row.api == config.api]
