"""The adapter connected to a fake server, for the tests of both sides of it: what works and what fails."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from providers.anthropic_messages import AnthropicMessages
from providers.assembler import Assembler
from providers.base import ModelRequest
from providers.errors import (
    ProviderError,
)
from providers.types import (
    ProviderConfig,
    Secret,
)
from tests.fakes.model_server import ModelServer
from tests.providers.conversations import request, user

KEY = "secret-key-1"


@asynccontextmanager
async def connected(
    url: str, key: str | None = KEY, headers: dict[str, str] | None = None
) -> AsyncIterator[AnthropicMessages]:
    config = ProviderConfig("anthropic", "anthropic", url, Secret(key) if key else None, headers or {})
    provider = AnthropicMessages(config)
    try:
        yield provider
    finally:
        await provider.aclose()


async def reply_of(server: ModelServer, asked: ModelRequest | None = None) -> Assembler:
    """Stream one reply. The assembler holds what came; a failure carries it as `partial`."""
    assembler = Assembler()
    async with connected(server.url) as provider:
        try:
            async for event in provider.stream(asked or request([user("hi")])):
                assembler.feed(event)
        except ProviderError as error:
            error.partial = assembler
            raise
    return assembler
