"""The seam between the agent and a model: one request type and the `Provider` protocol.

A provider turns a request into stream events and raises `ProviderError` (providers/errors.py) for every failure,
also for those that come late in the stream. It never retries and has no read time-out: agent/retry.py is the only one.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from providers.types import Effort, Message, PromptSection, ProviderConfig, StreamEvent, ToolSpec


class ModelRequest(Struct, frozen=True):
    """Everything one call needs.

    `messages` may be a live list that grows between calls. As long as `generation` stays the same, what stood before
    index `stable` in an earlier request with that generation is unchanged, so that an adapter encodes only what is new.
    """

    model: str
    system: tuple[PromptSection, ...]
    tools: tuple[ToolSpec, ...]
    messages: Sequence[Message]
    generation: int
    stable: int
    """How many leading messages can no longer change within this generation."""
    max_tokens: int
    effort: Effort | None = None
    """None: the provider's own default, nothing is sent."""
    cache_key: str = ""
    """The session id, for servers that route by it."""
    sent_before: int = 0
    """How many leading messages the previous request of this generation had: its last cache breakpoint stands there."""
    extra: tuple[Message, ...] = ()
    """Messages behind `messages` that belong to this call alone (the request for a summary). No cache breakpoint is put
    behind the last shared message when there are any."""
    load_blob: Callable[[str], bytes] | None = None
    """sha256 → bytes, for images."""


class ListedModel(Struct, frozen=True):
    """A model as the server lists it; None where it does not say."""

    id: str
    display_name: str | None = None
    context_window_tokens: int | None = None
    max_output_tokens: int | None = None


class Provider(Protocol):
    """A connection to one provider. Import of its SDK and TLS set-up happen on first use, or in `warm_up`."""

    config: ProviderConfig

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Send the request and yield its events; the last one is `Completed`.

        Closing the iterator, or cancelling the task that reads it, closes the connection at once.

        Raises:
            ProviderError: the request or the stream failed, with the provider's own words.
        """
        ...

    def warm_up(self) -> None:
        """Import the SDK and build the client; safe to call from a worker thread, more than once."""
        ...

    async def list_models(self) -> list[ListedModel]:
        """What the server offers, newest first where it says; empty where it has no listing."""
        ...

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """The provider's own count of the request's input, or None where the API has none."""
        ...

    async def aclose(self) -> None: ...
