"""The one way into a session's record: appends to transcript, window, gauge and store together, in that order.

Memory changes at once; the store writes behind, and `durable` is awaited where something depends on it.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from agent.context.meter import Meter
from agent.store.base import AnyBlob, ReadOnlyError, SessionStore
from agent.transcript import Entry, Payload, Transcript, decode_payload, encode_payload
from agent.window import Window


def wall_clock_ms() -> int:
    return int(time.time() * 1000)


class Recorder:
    """Keeps transcript, window and meter in step."""

    def __init__(
        self, transcript: Transcript, store: SessionStore, meter: Meter, clock: Callable[[], int] = wall_clock_ms
    ) -> None:
        self.transcript = transcript
        self.store = store
        self.meter = meter
        self.window = Window(transcript.branch)
        self.now_ms = clock
        if len(transcript):
            meter.rebuild(transcript.branch, self.window)

    @property
    def next_key(self) -> int:
        """The key that the next entry will have."""
        return (self.transcript.head or 0) + 1

    def append(self, *payloads: Payload, blobs: Iterable[AnyBlob] = (), delivered: Iterable[int] = ()) -> list[Entry]:
        """Append entries in one transaction, together with their blobs and the removal of delivered queue messages.

        Raises:
            ReadOnlyError: the session can only be read; nothing was appended.
        """
        if self.store.read_only:
            raise ReadOnlyError(self.store.read_only)
        entries: list[Entry] = []
        for payload in payloads:
            entry = self.transcript.append(encodable(payload), self.now_ms())
            broke = self.window.apply(self.transcript.branch, entry)
            self.meter.apply(entry, self.window, broke=broke)
            entries.append(entry)
        self.store.append(entries, blobs, delivered)
        return entries

    async def durable(self) -> None:
        """Wait until everything appended so far is on disk."""
        if (head := self.transcript.head) is not None:
            await self.store.durable(head)


def storable(text: str) -> str:
    """The text with lone surrogates replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def encodable(payload: Payload) -> Payload:
    """The payload with lone surrogates (file names, cut emoji) replaced, so that it can be stored and sent as UTF-8."""
    try:
        encode_payload(payload)
    except UnicodeEncodeError:
        return decode_payload(msgspec.json.encode(_scrub(msgspec.to_builtins(payload))))
    return payload


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {_scrub(key): _scrub(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(item) for item in value]
    return value
