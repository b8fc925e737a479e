"""From a provider's configuration to a provider. Adapters are imported here, lazily; vendors' SDKs not even then."""

import importlib
from collections.abc import Callable

from providers.base import Provider
from providers.types import ProviderConfig

LOCAL = "local"
"""The provider whose models are files."""
_ADAPTERS = {
    "anthropic": ("providers.anthropic_messages", "AnthropicMessages"),
    "responses": ("providers.openai_responses", "OpenAIResponses"),
    "chat": ("providers.openai_chat", "OpenAIChat"),
}


def create(config: ProviderConfig, *, counter: Callable[[str], int] | None = None) -> Provider:
    """The provider for a configuration; cheap, nothing is connected. `counter` counts tokens for the scripted one."""
    if config.api == "scripted":
        scripted: Provider = importlib.import_module("providers.demo_script").demo_provider(config, counter)
        return scripted
    if config.name == LOCAL:
        local: Provider = importlib.import_module("providers.local").LocalModel(config)
        return local
    module, name = _ADAPTERS[config.api]
    adapter: Provider = getattr(importlib.import_module(module), name)(config)
    return adapter
