"""From the configuration to `ProviderConfig`s: the address as the SDK wants it, the headers, and the key where one is known.

A key is bound to the address it was configured for: both come from the user's own sources and never from a project.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from agent.config.addresses import normalised
from agent.config.auth import key_fault, read_auth
from agent.config.layers import LoadedConfig
from agent.config.paths import Paths
from agent.config.schema import ProviderSettings
from providers.models import PRESETS
from providers.types import ProviderConfig, Secret


class KeySource(Struct, frozen=True):
    """Where a provider's key comes from, without the key."""

    provider: str
    kind: Literal["environment", "auth.json", "none"]
    variable: str | None
    """The variable that is looked at first."""


def provider_configs(loaded: LoadedConfig, env: Mapping[str, str], paths: Paths) -> dict[str, ProviderConfig]:
    """Every usable provider by name, those that claw knows among them even without a key (`key` is None then).

    A provider whose address or API is wrong is left out; `loaded.problems` says why.
    """
    stored, _ = read_auth(paths.auth_file)
    configs: dict[str, ProviderConfig] = {}
    for name, settings in loaded.config.providers.items():
        if name in loaded.unusable_providers or settings.api is None:
            continue
        configs[name] = ProviderConfig(
            name,
            settings.api,
            None if settings.base_url is None else normalised(settings.base_url, settings.api),
            _from_env(settings, env) or stored.get(name),
            dict(settings.headers),
            settings.connect_timeout_s,
            settings.cache_marks,
            settings.quirks,
        )
    return configs


def known_local(name: str) -> ProviderConfig | None:
    """A server on this machine that claw knows by that name, and that needs no key; None for any other name. `local` is
    the one whose models are files; its address is known once it runs."""
    if name == "local":
        return ProviderConfig(name, "chat", "http://127.0.0.1")
    preset = PRESETS.get(name)
    if preset is None or not preset.is_local:
        return None
    return ProviderConfig(name, preset.api, preset.base_url, quirks=preset.quirks)


def key_sources(loaded: LoadedConfig, env: Mapping[str, str], paths: Paths) -> tuple[KeySource, ...]:
    """For each provider where its key comes from; a variable goes before auth.json."""
    stored, _ = read_auth(paths.auth_file)
    sources: list[KeySource] = []
    for name, settings in loaded.config.providers.items():
        in_file: Literal["auth.json", "none"] = "auth.json" if name in stored else "none"
        sources.append(KeySource(name, "environment" if _from_env(settings, env) else in_file, settings.key_env))
    return tuple(sources)


def _from_env(settings: ProviderSettings, env: Mapping[str, str]) -> Secret | None:
    given = env.get(settings.key_env or "", "")
    return None if key_fault(given) else Secret(given.strip())
