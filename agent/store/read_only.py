"""The store of a session that is only looked at: it gives blobs and takes nothing. It leaves nothing beside the session file
but the lock that keeps others from deleting what is being read."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agent.store.base import AnyBlob, Blob, QueuedMessage, ReadOnlyError
from agent.store.lock import ViewingLock
from agent.store.reading import read_quietly
from agent.store.schema import SchemaError
from agent.transcript import Entry


class ReadOnlyStore:
    """Satisfies `SessionStore`; what would write raises `ReadOnlyError`."""

    unwritten = 0

    def __init__(self, path: Path, reason: str) -> None:
        """`reason`: why it can only be read."""
        self.path = path
        self.read_only = reason
        self._lock = ViewingLock(path)

    def append(self, entries: Sequence[Entry], blobs: Iterable[AnyBlob] = (), delivered: Iterable[int] = ()) -> None:
        raise ReadOnlyError(self.read_only)

    def enqueue(self, message: QueuedMessage, blobs: Iterable[Blob] = ()) -> None:
        raise ReadOnlyError(self.read_only)

    def dequeue(self, ids: Iterable[int]) -> None:
        raise ReadOnlyError(self.read_only)

    def save_counts(self, tokenizer: str, counts: Mapping[int, int]) -> None:
        """They are counted again another time."""

    def blob(self, sha256: str) -> bytes:
        try:
            row = read_quietly(
                self.path, lambda c: c.execute("SELECT data FROM blob WHERE sha256 = ?", (sha256,)).fetchone()
            )
        except SchemaError:
            row = None
        if row is None or not isinstance(row[0], bytes) or Blob.of(row[0]).sha256 != sha256:
            raise KeyError(sha256)
        return row[0]

    async def durable(self, key: int) -> None:
        pass

    def close(self) -> None:
        self._lock.release()
