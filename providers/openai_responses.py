"""The OpenAI Responses API: what is sent are ready bytes (`responses_encoding`), what comes back is read as raw
server-sent events (`responses_stream`). Nothing is stored on the server.
"""

from providers.base import ModelRequest
from providers.model_table import model_family
from providers.openai_client import OpenAIAdapter, parsed
from providers.responses_encoding import RequestEncoder
from providers.responses_stream import ResponsesReader
from providers.sdk_adapter import SHORT_TIMEOUT_S
from providers.types import ProviderConfig


class OpenAIResponses(OpenAIAdapter):
    """One provider that speaks the Responses API."""

    path = "/responses"

    def __init__(self, config: ProviderConfig) -> None:
        super().__init__(config)
        self._encoder = RequestEncoder()

    def encode(self, request: ModelRequest) -> bytes:
        return self._encoder.body(request)

    def decoder(self, request: ModelRequest) -> ResponsesReader:
        return ResponsesReader(model_family(request.model))

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """The server's count of the request's input; None where it does not offer that.

        Raises:
            ProviderError: the server could not be asked, or refused the request.
        """
        client = await self.connected()
        body = self._encoder.counting_body(request)
        value = parsed(await self.beside(self.post(client, "/responses/input_tokens", body, timeout=SHORT_TIMEOUT_S)))
        count = value.get("input_tokens") if isinstance(value, dict) else None
        return count if isinstance(count, int) else None
