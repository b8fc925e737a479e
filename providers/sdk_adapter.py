"""What every adapter over a vendor's SDK does alike: builds its client once, streams encoded requests, asks beside the stream.

The SDK signs, connects and maps errors; bodies and streams pass it as bytes, since its typed calls walk the whole history
on each call and build an object for each delta. It is imported in `warm_up` or on first use, and never retries. Which
address, which bytes and which events is each adapter's own.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from providers.base import ModelRequest
from providers.errors import ProviderError
from providers.http_errors import set_up_failure, tells_secret, translated
from providers.http_stream import EventDecoder, read_stream, read_whole
from providers.types import ProviderConfig, StreamEvent

if TYPE_CHECKING:
    import httpx2

SHORT_TIMEOUT_S = 30.0
"""For the calls beside the stream, which no watchdog watches."""
Client = TypeVar("Client")


class SdkAdapter(ABC, Generic[Client]):
    """One provider behind its vendor's SDK; see `Provider`."""

    def __init__(self, config: ProviderConfig) -> None:
        self.config = config
        self._client: Client | None = None
        self._building = threading.Lock()

    # ------------------------------------------------------------------ each adapter's own

    @abstractmethod
    def build_client(self) -> Client:
        """
        Raises:
            ProviderError: no usable key, or an address that a key must not be sent to.
        """

    @abstractmethod
    def sdk(self) -> Any:
        """The vendor's module."""

    @abstractmethod
    def encode(self, request: ModelRequest) -> bytes:
        """The body of a request."""

    @abstractmethod
    def decoder(self, request: ModelRequest) -> EventDecoder:
        """What reads the reply's events."""

    @abstractmethod
    async def open_stream(self, client: Client, body: bytes) -> "httpx2.Response":
        """Send a request; the response, its body unread."""

    # ------------------------------------------------------------------ Provider

    def warm_up(self) -> None:
        """Import the SDK and build the client; safe to call from a worker thread, more than once.

        Raises:
            ProviderError: no usable key, or an address that a key must not be sent to.
        """
        with self._building:
            if self._client is None:
                try:
                    self._client = self.build_client()
                except (ValueError, ImportError, OSError) as error:
                    raise set_up_failure(error, self.config) from self._cause(error)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """See `Provider.stream`."""
        client = await self.connected()
        body = self.encode(request)
        response: httpx2.Response | None = None
        try:
            response = await self.open_stream(client, body)
            async with aclosing(read_stream(response, self.decoder(request))) as events:
                async for event in events:
                    yield event
        except Exception as error:
            failure = self._translated(error, streaming=response is not None)
            if failure is error:
                raise
            raise failure from self._cause(error)
        finally:
            if response is not None:
                await response.aclose()

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            closing: Any = client
            await closing.close()

    # ------------------------------------------------------------------ for adapters

    async def connected(self) -> Client:
        if self._client is None:
            await asyncio.to_thread(self.warm_up)
        assert self._client is not None
        return self._client

    async def beside(self, call: "Awaitable[httpx2.Response]") -> bytes | None:
        """What a call beside the stream answered; None where the server does not have it (404, 405).

        Raises:
            ProviderError: the server could not be asked, or refused.
        """
        response: httpx2.Response | None = None
        try:
            response = await call
            return await read_whole(response)
        except Exception as error:
            failure = self._translated(error, streaming=response is not None)
            if isinstance(failure, ProviderError) and failure.status in (404, 405):
                return None
            if failure is error:
                raise
            raise failure from self._cause(error)
        finally:
            if response is not None:
                await response.aclose()

    def _cause(self, error: Exception) -> Exception | None:
        """What a traceback may show as the cause."""
        return None if tells_secret(error, self.config) else error

    def _translated(self, error: Exception, *, streaming: bool) -> Exception:
        return translated(error, self.config, self.sdk(), streaming=streaming)
