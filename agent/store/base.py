"""What a session asks of its store, and the store that keeps nothing (`--no-session`)."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from agent.store.file_blob import FileBlob
from agent.transcript import Entry, User

Delivery = Literal["step", "turn", "quiet"]
"""When a waiting message is delivered: after the step that runs; when the turn has ended, as a turn of its own; or like
the first, but without making the model go on."""


class Blob(Struct, frozen=True):
    """Bytes named by their sha256 (hexadecimal)."""

    sha256: str
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> "Blob":
        return cls(hashlib.sha256(data).hexdigest(), data)


AnyBlob = Blob | FileBlob


class QueuedMessage(Struct, frozen=True):
    """A message that waits to be delivered. Ids grow by one."""

    id: int
    text: str
    delivery: Delivery = "step"
    user: User | None = None
    """The message as it will be appended, where it is more than its text."""


class SessionMeta(Struct, frozen=True):
    id: str
    """YYYYMMDD-HHMMSS-xxxxxxxx, local time and eight random characters."""
    project: str
    """Real path of the workspace."""
    created_ms: int
    forked_from: str | None = None


class ReadOnlyError(RuntimeError):
    """The session can only be read; the text says why."""


class SessionStore(Protocol):
    """Every method but `durable`, `blob` and `close` returns at once; rows are written in the order of the calls."""

    @property
    def read_only(self) -> str:
        """Why nothing can be added; empty: it can."""
        ...

    @property
    def unwritten(self) -> int:
        """How many entries are kept in memory alone, because the disk did not take them."""
        ...

    def append(self, entries: Sequence[Entry], blobs: Iterable[AnyBlob] = (), delivered: Iterable[int] = ()) -> None:
        """Write entries, their blobs and the removal of delivered queue messages in one transaction."""
        ...

    def enqueue(self, message: QueuedMessage, blobs: Iterable[Blob] = ()) -> None: ...

    def dequeue(self, ids: Iterable[int]) -> None: ...

    def save_counts(self, tokenizer: str, counts: Mapping[int, int]) -> None: ...

    def blob(self, sha256: str) -> bytes:
        """
        Raises:
            KeyError: there is no such blob.
        """
        ...

    async def durable(self, key: int) -> None:
        """Wait until the entry with this key, and all before it, are on disk."""
        ...

    def close(self) -> None:
        """Write what is left and release the lock."""
        ...


class NoStore:
    """Keeps blobs in memory and writes nothing, as was asked for."""

    read_only = ""
    unwritten = 0

    def __init__(self) -> None:
        self._blobs: dict[str, AnyBlob] = {}

    def append(self, entries: Sequence[Entry], blobs: Iterable[AnyBlob] = (), delivered: Iterable[int] = ()) -> None:
        self._blobs.update((blob.sha256, blob) for blob in blobs)

    def enqueue(self, message: QueuedMessage, blobs: Iterable[Blob] = ()) -> None:
        self._blobs.update((blob.sha256, blob) for blob in blobs)

    def dequeue(self, ids: Iterable[int]) -> None:
        pass

    def save_counts(self, tokenizer: str, counts: Mapping[int, int]) -> None:
        pass

    def blob(self, sha256: str) -> bytes:
        return self._blobs[sha256].data

    async def durable(self, key: int) -> None:
        pass

    def close(self) -> None:
        pass
