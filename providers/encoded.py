"""The bytes of the messages that an adapter has seen, so that each is encoded once and a body is one copy of them."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from providers.base import ModelRequest
from providers.model_table import model_family
from providers.types import Message

_KEPT_CONVERSATIONS = 4


class EncodedMessages:
    """The messages of one conversation and generation, and their items in one piece, each with a comma before it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.items = bytearray()
        self._stable = 0
        self._ends: list[int] = []  # where each message's items end in `items`

    def follow(self, request: ModelRequest, encode: Callable[[int], bytes]) -> None:
        """Bring it up to date; `encode` gives the items of the message at a place."""
        self._keep(self._same_until(request.messages))
        for place in range(len(self.messages), len(request.messages)):
            self.items += encode(place)
            self.messages.append(request.messages[place])
            self._ends.append(len(self.items))
        self._stable = min(request.stable, len(self.messages))

    def _keep(self, count: int) -> None:
        """Forget all but the first `count` messages."""
        if count < len(self.messages):
            del self.messages[count:], self._ends[count:]
            del self.items[self._ends[-1] if self._ends else 0 :]

    def _same_until(self, messages: Sequence[Message]) -> int:
        """How many leading messages are the ones already encoded.

        The stable part is trusted where its two ends are the very same objects; behind it every message is compared.
        """
        known = self.messages
        length = min(len(known), len(messages))
        index = min(self._stable, length)
        if index and not (messages[0] is known[0] and messages[index - 1] is known[index - 1]):
            index = 0
        while index < length and messages[index] is known[index]:
            index += 1
        return index


class Conversations:
    """The encoded messages of the conversations that were continued last, each by its model family and generation."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int, str], EncodedMessages] = OrderedDict()

    def of(self, request: ModelRequest) -> EncodedMessages:
        key = (request.cache_key, request.generation, model_family(request.model))
        encoded = self._kept.pop(key, None) or EncodedMessages()
        self._kept[key] = encoded
        if len(self._kept) > _KEPT_CONVERSATIONS:
            self._kept.popitem(last=False)
        return encoded
