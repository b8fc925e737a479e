"""What the tests over all wire APIs share: a provider of each, and asking it."""

from collections.abc import Callable

import pytest

from providers.base import Provider
from providers.errors import ProviderError
from providers.registry import create
from providers.types import ProviderConfig, Secret, WireApi
from tests.fakes.model_server import ModelServer
from tests.fakes.wires import AnthropicSide, ChatSide, ResponsesSide, Wire
from tests.providers.conversations import request, user

KEY = "a-key-that-nobody-may-see-0123456789"
APIS: tuple[WireApi, ...] = ("anthropic", "responses", "chat")
SIDES: dict[str, Callable[[ModelServer], Wire]] = {
    "anthropic": AnthropicSide,
    "responses": ResponsesSide,
    "chat": ChatSide,
}
MODEL = {"anthropic": "claude-sonnet-5-5", "responses": "gpt-5.5", "chat": "some-model"}
all_apis = pytest.mark.parametrize("api", APIS)
both_sdks = pytest.mark.parametrize("api", ["anthropic", "chat"])


def provider(api: WireApi, url: str | None, key: str = KEY, **config: object) -> Provider:
    suffix = "" if api == "anthropic" or url is None else "/v1"
    return create(ProviderConfig("mine", api, url and url + suffix, Secret(key) if key else None, **config))  # type: ignore[arg-type]  # of a keyword


async def ask(asked: Provider) -> None:
    async for _ in asked.stream(request([user("hi")], model=MODEL[asked.config.api])):
        pass


async def failure(asked: Provider, close: bool = True) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await ask(asked)
    if close:
        await asked.aclose()
    return caught.value


SERVER_KEY = "test-key-0123456789"
"""What the fake servers take."""
