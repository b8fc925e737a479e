"""A blob that is too large to be held in memory: it stands in a file, from which it is streamed into the session's.

Whoever makes one leaves the file as it is. Decision: one that was lost all the same costs the blob, never the session: what
does not have its hash is not kept, and may still come.
"""

import contextlib
import hashlib
import sqlite3
from pathlib import Path

from msgspec import Struct

_PIECE_BYTES = 1 << 20


class FileBlob(Struct, frozen=True):
    sha256: str
    path: Path
    size_bytes: int

    @classmethod
    def of(cls, path: Path, sha256: str = "") -> "FileBlob":
        """`sha256`: where it is known already. Raises: OSError."""
        if sha256:
            return cls(sha256, path, path.stat().st_size)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
            return cls(digest.hexdigest(), path, file.tell())

    @property
    def data(self) -> bytes:
        """All of it, in memory.

        Raises:
            KeyError: it is lost.
        """
        try:
            data = self.path.read_bytes()
        except OSError:
            data = b""
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise KeyError(self.sha256)
        return data


def insert(connection: sqlite3.Connection, blob: FileBlob) -> None:
    """Write it within the transaction that is open, a piece at a time; nothing where the session has it already, or where
    its file no longer holds it.

    Raises:
        sqlite3.Error
    """
    sql = "INSERT OR IGNORE INTO blob VALUES (?, zeroblob(?))"
    if connection.execute(sql, (blob.sha256, blob.size_bytes)).rowcount != 1:
        return
    (row,) = connection.execute("SELECT rowid FROM blob WHERE sha256 = ?", (blob.sha256,)).fetchone()
    digest = hashlib.sha256()
    with (
        contextlib.suppress(OSError),
        blob.path.open("rb") as source,
        connection.blobopen("blob", "data", row) as target,
    ):
        left = blob.size_bytes
        while left and (piece := source.read(min(_PIECE_BYTES, left))):
            target.write(piece)
            digest.update(piece)
            left -= len(piece)
    if digest.hexdigest() != blob.sha256:
        connection.execute("DELETE FROM blob WHERE rowid = ?", (row,))
