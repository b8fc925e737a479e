"""The OpenAI Chat Completions API, which most servers speak: what is sent are ready bytes (`chat_encoding`), what comes
back is read as raw server-sent events (`chat_stream`). How servers differ is data (`chat_quirks`).
"""

from providers.base import ModelRequest
from providers.chat_encoding import ChatEncoder
from providers.chat_stream import ChatReader
from providers.model_table import model_family
from providers.openai_client import OpenAIAdapter
from providers.types import ProviderConfig


class OpenAIChat(OpenAIAdapter):
    """One provider that speaks the Chat Completions API."""

    path = "/chat/completions"

    def __init__(self, config: ProviderConfig) -> None:
        super().__init__(config)
        self._encoder = ChatEncoder(config.quirks)

    def encode(self, request: ModelRequest) -> bytes:
        return self._encoder.body(request)

    def decoder(self, request: ModelRequest) -> ChatReader:
        return ChatReader(model_family(request.model), self.config.quirks)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """None: the API cannot count."""
        return None
