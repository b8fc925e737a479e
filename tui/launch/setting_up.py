"""Does what the set-up screen is for: asks servers what they offer, keeps keys and addresses, and puts a model in force.

Nothing is asked before the user chose. What is kept goes into the user's own files, and is read back the way a start reads
it, so that the next start cannot differ. Decision: the chosen model counts for this run whatever else names one.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from agent.config.addresses import normalised
from agent.config.auth import has_keyring, save_key
from agent.config.editing import EditError, set_key
from agent.config.files import ConfigFile, read_config
from agent.config.key_paths import format_key
from agent.config.layers import load_config
from agent.config.providers import key_sources, provider_configs
from agent.config.trust import is_trusted
from agent.model_listing import save_listing
from providers import registry
from providers.base import ListedModel
from providers.errors import AuthenticationError, PermissionDeniedError, ProviderError
from providers.models import model_facts
from providers.presets import PRESETS, Preset
from providers.types import ProviderConfig, WireApi
from tui.launch.listed_models import ModelChoice, choice_of
from tui.launch.startup import Startup, overrides
from tui.setup_seam import OWN, Candidate, FoundServer, Offer

LOOK_S = 2.0
"""How long a server on this machine may take to answer."""
ASK_S = 15.0


class SettingUp:
    """See `tui.setup_seam.SetUp`. `adopt` takes the start that is in force from then on."""

    def __init__(
        self,
        startup: Startup,
        adopt: Callable[[Startup], None],
        places: Sequence[Candidate] | None = None,
        look_s: float = LOOK_S,
    ) -> None:
        """`places`: what `look` asks, each for `look_s` seconds; None: the known servers of this machine."""
        self._startup = startup
        self._look_s = look_s
        self._adopt = adopt
        self._places = [_known(name, preset) for name, preset in PRESETS.items() if preset.is_local]
        if places is not None:
            self._places = list(places)

    @property
    def offers(self) -> list[Offer]:
        startup = self._startup
        sources = {source.provider: source.kind for source in key_sources(startup.loaded, startup.env, startup.paths)}
        return [
            Offer(
                name,
                preset.title,
                preset.key_env,
                has_key=sources.get(name, "none") != "none",
                in_variable=sources.get(name) == "environment",
            )
            for name, preset in PRESETS.items()
            if not preset.is_local
        ]

    @property
    def local_places(self) -> list[tuple[str, str]]:
        return [(place.title, place.base_url or "") for place in self._places]

    @property
    def key_place(self) -> str:
        if has_keyring():
            return "the system's keyring"
        return f"{self._startup.paths.auth_file}, which only you can read"

    @property
    def config_file(self) -> str:
        return str(self._startup.paths.config_file)

    def offered(self, name: str) -> Candidate:
        config = self._startup.providers.get(name)
        known = _known(name, PRESETS[name])
        # An address of the user's own goes before the vendor's.
        return known if config is None else replace(known, api=config.api, base_url=config.base_url, key=config.key)

    def own(self, address: str, api: WireApi) -> Candidate:
        url = normalised(address, api)
        taken = self._startup.providers
        names = (OWN, *(f"{OWN}{number}" for number in range(2, len(taken) + 3)))
        for name in names:
            config = taken.get(name)
            if config is None:
                return Candidate(name, url, api, url, is_written=True)
            if (config.base_url, config.api) == (url, api):
                return Candidate(name, url, api, url, config.key)
        raise AssertionError("unreachable: one name more than there are providers")

    async def look(self) -> list[FoundServer]:
        found = await asyncio.gather(*(self._look_at(place) for place in self._places))
        return [server for server in found if server is not None]

    async def models(self, candidate: Candidate) -> list[ModelChoice]:
        return [self._choice(candidate, model) for model in await self._listed(candidate, ASK_S)]

    async def keep(self, candidate: Candidate, model_id: str) -> str:
        name = f"{candidate.name}/{model_id}"
        self._startup = await asyncio.to_thread(self._keep, candidate, name)
        self._adopt(self._startup)
        return name

    # ------------------------------------------------------------------ asking

    async def _look_at(self, place: Candidate) -> FoundServer | None:
        try:
            models = await self._listed(place, self._look_s)
        except (AuthenticationError, PermissionDeniedError):
            return FoundServer(place, wants_key=True)
        except ProviderError as error:
            # Only what answered counts as found; a page of something else is no model server.
            return FoundServer(place, fault=error.message) if error.status in (500, 502, 503) else None
        except TimeoutError:
            return None
        return FoundServer(place, tuple(self._choice(place, model) for model in models)) if models else None

    async def _listed(self, candidate: Candidate, patience_s: float) -> list[ListedModel]:
        config = self._config(candidate)
        client = registry.create(config)
        try:
            async with asyncio.timeout(patience_s):
                listed = await client.list_models()
        finally:
            with contextlib.suppress(Exception):
                await client.aclose()
        await asyncio.to_thread(save_listing, self._startup.paths.models, config, listed)
        return listed

    def _config(self, candidate: Candidate) -> ProviderConfig:
        base = self._startup.providers.get(candidate.name)
        preset = PRESETS.get(candidate.name)
        if base is None:
            base = ProviderConfig(candidate.name, candidate.api)
            base = base if preset is None else replace(base, quirks=preset.quirks)
        return replace(base, api=candidate.api, base_url=candidate.base_url, key=candidate.key or base.key)

    def _choice(self, candidate: Candidate, model: ListedModel) -> ModelChoice:
        overrides = self._startup.loaded.config.models
        override = overrides.get(f"{candidate.name}/{model.id}") or overrides.get(model.id)
        return choice_of(model_facts(self._config(candidate), model.id, override, model))

    # ------------------------------------------------------------------ keeping

    def _keep(self, candidate: Candidate, name: str) -> Startup:
        startup, paths = self._startup, self._startup.paths
        file = ConfigFile("user", paths.config_file)
        if (problem := read_config(file).problem) is not None:  # known before the key is kept
            raise EditError(
                f"{problem}.\nIt is left as it is: correct it first; `claw config check` shows what is wrong."
            )
        values = {"model": name}
        if candidate.is_written and candidate.base_url is not None:
            table = format_key(("providers", candidate.name))
            values = {f"{table}.api": candidate.api, f"{table}.base_url": candidate.base_url, **values}
        if candidate.key is not None and candidate.key != _key_in_force(startup, candidate.name):
            save_key(paths.auth_file, candidate.name, candidate.key, in_keyring=has_keyring())
        for key, value in values.items():
            set_key(file, key, json.dumps(value, ensure_ascii=False), paths.state / "config")
        return renewed(startup, name)


def renewed(startup: Startup, model: str) -> Startup:
    """The start as it would be now, with this model in force."""
    arguments = replace(startup.arguments, model=model)
    paths, project, env = startup.paths, startup.project, startup.env
    trusted = is_trusted(project, paths, this_run=arguments.trust)
    loaded = load_config(paths, project, env, overrides(arguments), arguments.profile, trusted=trusted)
    return replace(startup, arguments=arguments, loaded=loaded, providers=provider_configs(loaded, env, paths))


def _key_in_force(startup: Startup, name: str) -> object:
    config = startup.providers.get(name)
    return None if config is None else config.key


def _known(name: str, preset: Preset) -> Candidate:
    return Candidate(name, preset.title, preset.api, preset.base_url, variable=preset.key_env)
